//! Credentials for Azure Blob Storage, from where Azure's tools and restic take them. No error has
//! a secret in it.

use object_store::azure::AzureConfigKey as Key;

/// Where blobs are, if nothing else is said.
const SUFFIX: &str = "core.windows.net";

/// Settings that any client may have: the variables and what `object_store` calls them.
const PLAIN: [(&str, Key); 7] = [
    ("AZURE_CLIENT_ID", Key::ClientId),
    ("AZURE_CLIENT_SECRET", Key::ClientSecret),
    ("AZURE_TENANT_ID", Key::AuthorityId),
    ("AZURE_AUTHORITY_HOST", Key::AuthorityHost),
    ("AZURE_FEDERATED_TOKEN_FILE", Key::FederatedTokenFile),
    ("AZURE_ACCESS_TOKEN", Key::Token),
    ("IDENTITY_ENDPOINT", Key::MsiEndpoint),
];

/// The client's settings that the variables of the environment lead to. Without a key, a token, a
/// secret or the like, the client asks the machine for its identity.
///
/// # Errors
/// What is missing, for people.
pub(super) fn find(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(Key, String)>, String> {
    let first = |names: &[&str]| names.iter().copied().find_map(variable);
    let mut settings: Vec<(Key, String)> = PLAIN
        .into_iter()
        .filter_map(|(name, key)| Some((key, variable(name)?)))
        .collect();
    let text = variable("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default();
    // Keys end in equals signs.
    let parts: Vec<(&str, &str)> = text.split(';').filter_map(|part| part.split_once('=')).collect();
    let part = |name: &str| {
        let part = parts
            .iter()
            .find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        part.map(|(_, value)| value.trim().to_owned())
    };
    let account = part("AccountName").or_else(|| {
        first(&[
            "AZURE_ACCOUNT_NAME",
            "AZURE_STORAGE_ACCOUNT",
            "AZURE_STORAGE_ACCOUNT_NAME",
        ])
    });
    let Some(account) = account else {
        return Err(
            "which account of Azure has the container? Set AZURE_ACCOUNT_NAME, and AZURE_ACCOUNT_KEY or AZURE_ACCOUNT_SAS"
                .to_owned(),
        );
    };
    let key = part("AccountKey").or_else(|| {
        first(&[
            "AZURE_ACCOUNT_KEY",
            "AZURE_STORAGE_KEY",
            "AZURE_STORAGE_ACCOUNT_KEY",
        ])
    });
    let sas =
        part("SharedAccessSignature").or_else(|| first(&["AZURE_ACCOUNT_SAS", "AZURE_STORAGE_SAS_TOKEN"]));
    let endpoint = part("BlobEndpoint").or_else(|| {
        let suffix = part("EndpointSuffix").or_else(|| variable("AZURE_ENDPOINT_SUFFIX"));
        suffix
            .filter(|suffix| suffix != SUFFIX)
            .map(|suffix| format!("https://{account}.blob.{suffix}"))
    });
    settings.push((Key::AccountName, account));
    settings.extend(key.map(|key| (Key::AccessKey, key)));
    settings.extend(sas.map(|sas| (Key::SasKey, sas.trim_start_matches('?').to_owned())));
    settings.extend(endpoint.map(|url| (Key::Endpoint, url.trim_end_matches('/').to_owned())));
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let of = |name: &str| variables.iter().find(|(key, _)| *key == name);
        let settings = find(&|name| of(name).map(|(_, value)| (*value).to_owned()))?;
        Ok(settings.into_iter().map(|(_, value)| value).collect())
    }

    #[test]
    fn the_variables_of_azures_tools_and_of_restic_count() {
        let told = found(&[("AZURE_ACCOUNT_KEY", "SESAME")]).unwrap_err();
        assert!(
            told.contains("AZURE_ACCOUNT_NAME") && !told.contains("SESAME"),
            "{told}"
        );
        let restic = [("AZURE_ACCOUNT_NAME", "n"), ("AZURE_ACCOUNT_KEY", "k==")];
        assert_eq!(found(&restic).unwrap(), ["n", "k=="]);
        let azure = [
            ("AZURE_STORAGE_ACCOUNT", "n"),
            ("AZURE_STORAGE_SAS_TOKEN", "?s=1"),
        ];
        assert_eq!(found(&azure).unwrap(), ["n", "s=1"]);
        let identity = [("AZURE_ACCOUNT_NAME", "n"), ("AZURE_CLIENT_ID", "i")];
        assert_eq!(found(&identity).unwrap(), ["i", "n"]);
        let china = [
            ("AZURE_ACCOUNT_NAME", "n"),
            ("AZURE_ENDPOINT_SUFFIX", "core.chinacloudapi.cn"),
        ];
        assert_eq!(
            found(&china).unwrap(),
            ["n", "https://n.blob.core.chinacloudapi.cn"]
        );
        let usual = [
            ("AZURE_ACCOUNT_NAME", "n"),
            ("AZURE_ENDPOINT_SUFFIX", "core.windows.net"),
        ];
        assert_eq!(found(&usual).unwrap(), ["n"]);
        let text =
            "DefaultEndpointsProtocol=http;AccountName=dev;AccountKey=k==;BlobEndpoint=http://h:1/dev/;";
        let whole = [
            ("AZURE_STORAGE_CONNECTION_STRING", text),
            ("AZURE_ACCOUNT_NAME", "n"),
        ];
        assert_eq!(found(&whole).unwrap(), ["dev", "k==", "http://h:1/dev"]);
    }
}
