//! Stores in an object store, and tenants of a server there: a real S3 server over loopback.

use std::fs;

use testfs::{Keys, S3Server};

use crate::bed::{Bed, last, noise, settle};
use crate::main_job::plant;
use crate::picture::{assert_same, picture};
use crate::served::Served;

fn set_keys(bed: &mut Bed, keys: &Keys) {
    bed.set("AWS_ACCESS_KEY_ID", &keys.id);
    bed.set("AWS_SECRET_ACCESS_KEY", &keys.secret);
}

/// A bed whose commands work on a place of the server, as the user who may do everything.
pub(crate) fn bed_at(server: &S3Server, place: &str) -> Bed {
    let mut bed = Bed::bare();
    let home = bed.path("");
    bed.set("HOME", home.to_str().unwrap());
    bed.set("ONEFOLD_REPOSITORY", place);
    set_keys(&mut bed, &server.all);
    bed
}

#[test]
fn a_tree_goes_to_an_object_store_and_comes_back() {
    let Some(server) = S3Server::start() else { return };
    let place = server.location("backups/web");
    let bed = bed_at(&server, &place);
    bed.run(["init", "--reserve-mib", "1"])
        .expect(2)
        .says(&["does not fill up"]);
    let made = bed.ok(["init", "--container-mib", "1"]);
    assert!(made.out().contains(&format!("in {place}")), "{}", made.out());
    bed.run(["init"]).expect(1);
    plant(&bed.path("tree"));
    settle();
    let first = last(&bed.ok(["backup", "tree", "--json"]));
    assert!(first["data_added"].as_u64().unwrap() > 3 << 20, "{first}");
    let second = last(&bed.ok(["backup", "tree", "--json"]));
    assert_eq!(second["parent"], first["snapshot_id"], "{second}");
    assert_eq!(second["bytes_read"], 0, "{second}");
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    bed.assert_sound();
    // What only the first backups need is freed.
    fs::write(bed.path("tree/folder/large"), noise(2 << 20, 7)).unwrap();
    fs::write(bed.path("tree/folder/same"), noise(2 << 20, 7)).unwrap();
    settle();
    bed.ok(["backup", "tree"]);
    bed.ok(["forget", "1", "2"]);
    let pruned = last(&bed.ok(["prune", "--json"]));
    assert!(pruned["bytes_freed"].as_u64().unwrap() > 1 << 20, "{pruned}");
    bed.assert_sound();
    let kinds = bed.ok(["stats", "--json"]).out();
    assert!(
        kinds.contains("\"objects\"") && !kinds.contains("reserve"),
        "{kinds}"
    );
    bed.ok(["restore", "latest", "-t", "again"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("again", "tree")),
    );
    // Another store of its domain, elsewhere in the bucket.
    let other = server.location("other");
    bed.ok(["init", "--repo", &other, "--domain-of", &place]);
    assert_eq!(bed.backups().len(), 1);
}

#[test]
fn what_is_wrong_with_a_place_is_told() {
    let Some(server) = S3Server::start() else { return };
    let place = server.location("p");
    let mut bed = bed_at(&server, &place);
    bed.run(["snapshots"]).expect(10).says(&[&place]);
    bed.run(["init", "--group-access"])
        .expect(1)
        .says(&["for a folder"]);
    bed.set("ONEFOLD_REPOSITORY", &server.no_bucket());
    for verb in ["snapshots", "init"] {
        bed.run([verb]).expect(10).says(&["no such bucket"]);
    }
    bed.set("ONEFOLD_REPOSITORY", &place);
    set_keys(&mut bed, &server.none);
    bed.run(["init"]).expect(1).says(&["s3:ListBucket"]);
    bed.set("AWS_SECRET_ACCESS_KEY", "SESAME");
    let wrong = bed
        .run(["init"])
        .expect(1)
        .says(&["SignatureDoesNotMatch", "check AWS_"]);
    assert!(!wrong.err().contains("SESAME"), "{}", wrong.err());
    bed.set("AWS_SECRET_ACCESS_KEY", "");
    bed.run(["init"])
        .expect(1)
        .says(&["AWS_SECRET_ACCESS_KEY is not"]);
    bed.set("AWS_ACCESS_KEY_ID", "");
    bed.run(["init"]).expect(1).says(&["there are no credentials"]);
    bed.set("ONEFOLD_REPOSITORY", "s3:https://id:SESAME@127.0.0.1/bucket");
    let secret = bed
        .run(["init"])
        .expect(1)
        .says(&["no password in it", "s3:https://HOST"]);
    assert!(!secret.err().contains("SESAME"), "{}", secret.err());
}

#[test]
fn a_profile_has_the_keys() {
    let Some(server) = S3Server::start() else { return };
    let mut bed = bed_at(&server, &server.location("p"));
    let Keys { id, secret } = &server.all;
    let text = format!("[backup]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    fs::create_dir(bed.path(".aws")).unwrap();
    fs::write(bed.path(".aws/credentials"), text).unwrap();
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        bed.set(name, "");
    }
    bed.run(["init"]).expect(1).says(&["there are no credentials"]);
    bed.set("AWS_PROFILE", "backup");
    bed.ok(["init"]);
}

/// A private authority is believed if `SSL_CERT_FILE` names it.
#[test]
fn the_way_to_an_object_store_is_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("server");
    let Some(server) = S3Server::start_tls(&certificate) else {
        return;
    };
    let mut bed = bed_at(&server, &server.location("p"));
    bed.run(["init"])
        .expect(1)
        .says(&["certificate", "SSL_CERT_FILE"]);
    let certificate = certificate.with_extension("crt");
    bed.set("SSL_CERT_FILE", certificate.to_str().unwrap());
    bed.ok(["init"]);
    fs::write(bed.path("file"), noise(300_000, 1)).unwrap();
    bed.ok(["backup", "file"]);
    bed.assert_sound();
}

#[test]
fn a_tenant_of_a_server_is_in_an_object_store() {
    let Some(server) = S3Server::start() else { return };
    let place = server.location("tenants/guest");
    let mut served = Served::new();
    served.kill();
    let add = [
        "--insecure-no-password",
        "server",
        "tenant",
        "add",
        "srv",
        "guest",
        "--store",
        &place,
    ];
    served
        .operator(&add)
        .expect(1)
        .says(&["there are no credentials"]);
    set_keys(&mut served.bed, &server.all);
    served.operator(&add).expect(0);
    served
        .operator(&["server", "namespace", "add", "srv", "lab", "--tenant", "guest"])
        .expect(0);
    let listed = served
        .operator(&["server", "tenant", "list", "srv"])
        .expect(0)
        .out();
    assert!(listed.contains(&place), "{listed}");
    served.restart();
    let bed = &served.bed;
    plant(&bed.path("tree"));
    settle();
    let machine = served.machine("one", "lab", "write,list,read,forget");
    let first = last(&machine.ok(&["backup", "tree", "--json"]));
    assert!(first["data_added"].as_u64().unwrap() > 3 << 20, "{first}");
    let second = last(&machine.ok(&["backup", "tree", "--json"]));
    assert_eq!(second["bytes_read"], 0, "{second}");
    machine.ok(&["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    machine.ok(&["forget", "1"]);
    // The operator works on the store itself.
    let on_store = |verb: &str| {
        let args = ["--insecure-no-password", "--repo", &place, verb];
        served.operator(&args).expect(0)
    };
    on_store("prune");
    assert!(on_store("check").out().contains("no damage found"));
    assert_eq!(machine.backups(), [2]);
    served.end();
}

/// A server starts without an object store that does not answer, and serves its other tenants.
#[test]
fn a_server_starts_beside_an_object_store_that_is_away() {
    let Some(server) = S3Server::start() else { return };
    let place = server.location("tenants/guest");
    let mut served = Served::new();
    served.kill();
    set_keys(&mut served.bed, &server.all);
    let add = [
        "--insecure-no-password",
        "server",
        "tenant",
        "add",
        "srv",
        "guest",
    ];
    served
        .operator(&[&add[..], &["--store", &place]].concat())
        .expect(0);
    let add = ["server", "namespace", "add", "srv", "lab", "--tenant", "guest"];
    served.operator(&add).expect(0);
    drop(server);
    served.restart();
    let bed = &served.bed;
    plant(&bed.path("tree"));
    let main = served.machine("one", "web", "write,list,read");
    main.ok(&["backup", "tree"]);
    let lab = served.machine("two", "lab", "write,list,read");
    lab.run(&["backup", "tree"])
        .expect(1)
        .says(&["cannot reach the object store", "try again"]);
    served.end();
}
