//! Tokens that are revoked, and quotas that are used up, while an operation runs.

use super::*;

/// Ends a token while its client runs an operation. The server then refuses one of the client's
/// messages, and ends the connection.
fn revoked_in(begin: impl FnOnce(&Bed, &mut Client)) {
    let bed = Bed::new();
    let token = bed.token("web", "write,read");
    let id = token.split('_').nth(1).unwrap().to_owned();
    let mut client = bed.logged_in("web", token);
    begin(&bed, &mut client);
    bed.home().revoke(&id).unwrap();
    let told = (0..200).find_map(|_| {
        // The request has no place, and is refused as malformed while the token is valid.
        client.send(request::NODE, &[]);
        let (_, _, body) = client.next().expect("the reason before the end");
        let refusal = Refusal::from_bytes(&body).unwrap();
        thread::sleep(Duration::from_millis(50));
        (refusal.kind == RefusalKind::NotAllowed).then_some(refusal)
    });
    let refusal = told.expect("a refusal within ten seconds");
    assert!(refusal.to_string().contains("revoked"), "{refusal}");
    assert!(client.next().is_none());
    client.thread.join().unwrap().unwrap();
    assert!(bed.store().snapshots().unwrap().snapshots.len() <= 1);
}

#[test]
fn a_revoked_token_ends_a_running_backup() {
    revoked_in(|_, client| drop(client.begin(Parents::LatestTree).unwrap()));
}

#[test]
fn a_revoked_token_ends_a_running_read() {
    revoked_in(|bed, client| {
        let id = honest(&mut bed.client("web", "write"));
        client.ask(request::READ, &vec![id]).unwrap();
    });
}

/// Two backups run at the same time. The first is committed, and then the second has no room.
#[test]
fn a_commit_counts_what_others_have_committed() {
    let bed = Bed::new();
    bed.token("web", "write");
    let limit = |quota_bytes| {
        let change = |limits: crate::Limits| crate::Limits {
            quota_bytes,
            ..limits
        };
        bed.home().change_limits("web", change).unwrap();
    };
    limit(Some(100_000));
    let mut second = bed.client("web", "write");
    let terms = second.begin(Parents::Named(Vec::new())).unwrap().terms;
    honest(&mut bed.client("web", "write"));
    let other = [9; 60_000];
    let chunks = children(&terms, &[&other]);
    second.submit(vec![offered(segment(&terms, chunks)), end()]);
    let verdicts = second.verdicts_until(|verdict| *verdict == Verdict::Done);
    for verdict in &verdicts {
        if let Verdict::Segment { wanted, .. } = verdict {
            second.submit(vec![region(&terms, wanted[0].new, &other, &other)]);
        }
    }
    let refused = second.ask(request::COMMIT, &about()).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NotAllowed, "{refused}");
    assert_eq!(bed.store().snapshots().unwrap().snapshots.len(), 1);
    limit(None);
    honest(&mut bed.client("web", "write"));
}
