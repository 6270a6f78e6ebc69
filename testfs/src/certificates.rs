//! Certificates for tests of TLS.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Puts an authority and what it signs into a folder, as files with the names that gnutls's
/// programs look for: `ca-cert.pem`; `server-cert.pem` and `server-key.pem`; the same for `client`.
///
/// # Panics
/// If the folder cannot be written.
pub fn put_certificates(folder: &Path) {
    let params = |name: &str| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let put = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("a folder");
    let key = || KeyPair::generate().expect("keys");
    let authority_key = key();
    let mut authority = params("authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = authority.self_signed(&authority_key).expect("a certificate");
    put("ca-cert.pem", pem("CERTIFICATE", certificate.der()));
    let issuer = Issuer::new(authority, &authority_key);
    for (name, usage) in [
        ("server", ExtendedKeyUsagePurpose::ServerAuth),
        ("client", ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let mut params = params("localhost");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = key();
        let leaf = params.signed_by(&key, &issuer).expect("a certificate");
        put(&format!("{name}-cert.pem"), pem("CERTIFICATE", leaf.der()));
        put(
            &format!("{name}-key.pem"),
            pem("PRIVATE KEY", key.serialized_der()),
        );
    }
}

/// Bytes as PEM.
fn pem(label: &str, bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            let digit = (word >> (18 - 6 * place)) as usize & 63;
            text.push(if place <= three.len() {
                char::from(DIGITS[digit])
            } else {
                '='
            });
        }
    }
    let lines: Vec<String> = text
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}
