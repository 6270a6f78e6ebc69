//! Credentials for Google Cloud Storage, from where Google's tools take them.

use std::path::Path;

use object_store::gcp::GoogleConfigKey as Key;

/// The client's settings that the variables of the environment lead to. Without any, the client
/// takes the file of `gcloud auth application-default login`, or asks the machine.
///
/// # Errors
/// What is missing, for people.
pub(super) fn find(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(Key, String)>, String> {
    if let Some(host) = variable("STORAGE_EMULATOR_HOST") {
        let url = if host.contains("://") {
            host
        } else {
            format!("http://{host}")
        };
        let url = url.trim_end_matches('/').to_owned();
        // An emulator takes any token. Without one, the client would ask the machine for it.
        let token = variable("GOOGLE_ACCESS_TOKEN").unwrap_or_else(|| "none".to_owned());
        return Ok(vec![(Key::BaseUrl, url), (Key::BearerToken, token)]);
    }
    if let Some(token) = variable("GOOGLE_ACCESS_TOKEN") {
        return Ok(vec![(Key::BearerToken, token)]);
    }
    let Some(file) = variable("GOOGLE_APPLICATION_CREDENTIALS") else {
        return Ok(Vec::new());
    };
    match std::fs::metadata(Path::new(&file)) {
        Ok(_) => Ok(vec![(Key::ApplicationCredentials, file)]),
        Err(error) => Err(format!("GOOGLE_APPLICATION_CREDENTIALS names {file}: {error}")),
    }
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
    fn the_variables_of_googles_tools_count() {
        assert_eq!(found(&[]).unwrap(), [""; 0]);
        let emulator = [("STORAGE_EMULATOR_HOST", "h:1"), ("GOOGLE_ACCESS_TOKEN", "t")];
        assert_eq!(found(&emulator).unwrap(), ["http://h:1", "t"]);
        assert_eq!(
            found(&[("STORAGE_EMULATOR_HOST", "https://h/")]).unwrap(),
            ["https://h", "none"]
        );
        assert_eq!(found(&[("GOOGLE_ACCESS_TOKEN", "t")]).unwrap(), ["t"]);
        let told = found(&[("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")]).unwrap_err();
        assert!(
            told.contains("GOOGLE_APPLICATION_CREDENTIALS names /no/such/file"),
            "{told}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(
            found(&[("GOOGLE_APPLICATION_CREDENTIALS", path)]).unwrap(),
            [path]
        );
    }
}
