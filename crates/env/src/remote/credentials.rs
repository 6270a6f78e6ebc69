//! Credentials for an object store, from where AWS's tools take them.
//!
//! The order is that of those tools: keys in the environment, a role with a token in a file, a
//! profile, the role of a container, the role of the machine. No error has a secret in it.

use std::path::PathBuf;

use object_store::aws::AmazonS3ConfigKey as Key;

use super::profile::{Profile, add};
use super::uploads::Checksums;

/// The settings of a role: the variable and what `object_store` calls it.
const ROLE: [(&str, Key); 4] = [
    ("AWS_WEB_IDENTITY_TOKEN_FILE", Key::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", Key::RoleArn),
    ("AWS_ROLE_SESSION_NAME", Key::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", Key::StsEndpoint),
];
/// Those of a container's role.
const CONTAINER: [(&str, Key); 3] = [
    (
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        Key::ContainerCredentialsRelativeUri,
    ),
    (
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        Key::ContainerCredentialsFullUri,
    ),
    (
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        Key::ContainerAuthorizationTokenFile,
    ),
];

const NONE: &str = "there are no credentials for the object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                    AWS_PROFILE to a profile of ~/.aws/credentials that has keys";

/// What a client authenticates with. It has secrets, so it is never printed.
pub(super) struct Credentials {
    pub(super) region: Option<String>,
    /// What the user says about checksums of uploads.
    pub(super) checksums: Option<Checksums>,
    /// Settings for the client. Without any, it asks the machine for its role.
    pub(super) settings: Vec<(Key, String)>,
}

/// The credentials that the variables of the environment lead to. Only at AWS a machine has a role.
///
/// # Errors
/// What is missing, for people.
pub(super) fn find(variable: &dyn Fn(&str) -> Option<String>, is_aws: bool) -> Result<Credentials, String> {
    let profile = read_profile(variable)?;
    let of_profile = |key: &str| profile.get(key).filter(|value| !value.is_empty()).cloned();
    let region = ["AWS_REGION", "AWS_DEFAULT_REGION"]
        .into_iter()
        .find_map(variable);
    let region = region.or_else(|| of_profile("region"));
    let checksums = variable("AWS_REQUEST_CHECKSUM_CALCULATION")
        .or_else(|| of_profile("request_checksum_calculation"))
        .map(|value| Checksums::parse(&value))
        .transpose()?;
    let with = |settings| {
        Ok(Credentials {
            region,
            checksums,
            settings,
        })
    };
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(id), Some(secret)) => return with(keys(id, secret, variable("AWS_SESSION_TOKEN"))),
        (Some(_), None) => {
            return Err("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not".to_owned());
        }
        (None, Some(_)) => {
            return Err("AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not".to_owned());
        }
        (None, None) => {}
    }
    let set = |keys: &[(&str, Key)]| -> Vec<(Key, String)> {
        let set = keys.iter().map(|(name, key)| Some((*key, variable(name)?)));
        set.flatten().collect()
    };
    if variable("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() && variable("AWS_ROLE_ARN").is_some() {
        return with(set(&ROLE));
    }
    match (
        of_profile("aws_access_key_id"),
        of_profile("aws_secret_access_key"),
    ) {
        (Some(id), Some(secret)) => return with(keys(id, secret, of_profile("aws_session_token"))),
        (None, None) if variable("AWS_PROFILE").is_none() => {}
        _ => {
            return Err(
                "the profile has no aws_access_key_id and aws_secret_access_key, and this program takes \
                 neither role_arn nor sso nor credential_process: `aws configure export-credentials --format \
                 env` prints keys for the environment"
                    .to_owned(),
            );
        }
    }
    let container = set(&CONTAINER);
    if !container.is_empty() {
        return with(container);
    }
    let may_ask =
        variable("AWS_EC2_METADATA_DISABLED").is_none_or(|value| !value.eq_ignore_ascii_case("true"));
    if is_aws && may_ask {
        return with(Vec::new());
    }
    Err(NONE.to_owned())
}

/// The error if the machine turned out to have no role.
pub(super) fn no_role() -> String {
    format!("{NONE}; this machine has no role either")
}

fn keys(id: String, secret: String, token: Option<String>) -> Vec<(Key, String)> {
    let mut keys = vec![(Key::AccessKeyId, id), (Key::SecretAccessKey, secret)];
    keys.extend(token.map(|token| (Key::Token, token)));
    keys
}

/// The profile of `AWS_PROFILE`, or the default one.
fn read_profile(variable: &dyn Fn(&str) -> Option<String>) -> Result<Profile, String> {
    let named = variable("AWS_PROFILE");
    let name = named.as_deref().unwrap_or("default");
    let home = variable("HOME").map(|home| PathBuf::from(home).join(".aws"));
    let file = |set: &str, usual: &str| {
        let set = variable(set).map(PathBuf::from);
        set.or_else(|| home.as_ref().map(|home| home.join(usual)))
    };
    let in_config = if name == "default" {
        name.to_owned()
    } else {
        format!("profile {name}")
    };
    let mut profile = Profile::new();
    let mut is_found = false;
    for (file, section) in [
        (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name),
        (file("AWS_CONFIG_FILE", "config"), &in_config),
    ] {
        if let Some(file) = file {
            is_found |=
                add(&mut profile, &file, section).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    if named.is_some() && !is_found {
        return Err(format!(
            "there is no profile {name:?}, which AWS_PROFILE names, in ~/.aws/credentials or ~/.aws/config"
        ));
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Variables, with a home that has these files.
    struct Environment {
        variables: BTreeMap<String, String>,
        home: tempfile::TempDir,
    }

    fn with(variables: &[(&str, &str)]) -> Environment {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let mut variables: BTreeMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        variables.insert("HOME".to_owned(), home.path().to_str().unwrap().to_owned());
        Environment { variables, home }
    }

    impl Environment {
        fn file(self, name: &str, text: &str) -> Self {
            std::fs::write(self.home.path().join(".aws").join(name), text).unwrap();
            self
        }

        fn found(&self, is_aws: bool) -> Result<Vec<String>, String> {
            let found = find(&|name| self.variables.get(name).cloned(), is_aws)?;
            let settings = found.settings.into_iter().map(|(_, value)| value);
            Ok(settings.chain(found.region).collect())
        }
    }

    const KEYS: &str = "[default]\naws_access_key_id = i\naws_secret_access_key = s\n[web]\naws_access_key_id = wi\n\
                        aws_secret_access_key = ws\naws_session_token = wt\n";

    #[test]
    fn keys_of_the_environment_come_first() {
        let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let environment = with(&keys).file("credentials", KEYS);
        assert_eq!(environment.found(false).unwrap(), ["id", "secret"]);
        let more = [("AWS_SESSION_TOKEN", "token"), ("AWS_DEFAULT_REGION", "r")];
        let environment = with(&[&keys[..], &more].concat());
        assert_eq!(environment.found(false).unwrap(), ["id", "secret", "token", "r"]);
        for (half, missing) in [(keys[0], "SECRET"), (keys[1], "KEY_ID")] {
            let error = with(&[half]).file("credentials", KEYS).found(false).unwrap_err();
            assert!(error.contains(missing), "{error}");
        }
    }

    #[test]
    fn checksums_are_set_by_the_environment_or_the_profile() {
        let checksums = |environment: &Environment| {
            let found = find(&|name| environment.variables.get(name).cloned(), false);
            found.map(|found| found.checksums)
        };
        let in_profile = format!("{KEYS}request_checksum_calculation = when_required\n");
        let profile = ("AWS_PROFILE", "web");
        let environment = with(&[profile]).file("credentials", &in_profile);
        assert_eq!(checksums(&environment), Ok(Some(Checksums::None)));
        assert_eq!(checksums(&with(&[profile]).file("credentials", KEYS)), Ok(None));
        let set = |value| ("AWS_REQUEST_CHECKSUM_CALCULATION", value);
        let environment = with(&[profile, set("when_supported")]).file("credentials", &in_profile);
        assert_eq!(checksums(&environment), Ok(Some(Checksums::All)));
        let error = checksums(&with(&[set("never")])).unwrap_err();
        assert!(error.contains("\"never\""), "{error}");
    }

    #[test]
    fn a_profile_has_keys_in_one_file_and_a_region_in_the_other() {
        let config = "[default]\nregion = r1\n[profile web]\nregion = r2\n[profile role]\nrole_arn = x\n";
        let environment = with(&[]).file("credentials", KEYS).file("config", config);
        assert_eq!(environment.found(false).unwrap(), ["i", "s", "r1"]);
        let environment = with(&[("AWS_PROFILE", "web")]).file("credentials", KEYS);
        let environment = environment.file("config", config);
        assert_eq!(environment.found(false).unwrap(), ["wi", "ws", "wt", "r2"]);
        let environment = with(&[("AWS_PROFILE", "role")]).file("config", config);
        let error = environment.found(true).unwrap_err();
        assert!(error.contains("export-credentials"), "{error}");
        let environment = with(&[("AWS_PROFILE", "none")]).file("config", config);
        let error = environment.found(true).unwrap_err();
        assert!(error.contains("no profile \"none\""), "{error}");
    }

    #[test]
    fn roles_are_used_where_there_are_no_keys() {
        let role = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "arn")];
        let environment = with(&role).file("credentials", KEYS);
        assert_eq!(environment.found(false).unwrap(), ["/t", "arn"]);
        let environment = with(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/u")]);
        assert_eq!(environment.found(false).unwrap(), ["/u"]);
        assert_eq!(with(&[]).found(true).unwrap(), [""; 0]);
        assert!(with(&[]).found(false).unwrap_err().contains("AWS_ACCESS_KEY_ID"));
        let disabled = with(&[("AWS_EC2_METADATA_DISABLED", "true")]);
        assert!(disabled.found(true).unwrap_err().contains("AWS_ACCESS_KEY_ID"));
    }
}
