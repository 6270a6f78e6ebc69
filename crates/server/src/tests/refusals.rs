//! Refused clients: how many of them the server records.

use super::*;

/// The records of the server's folder about this event.
fn records(home: &Home, event: &str) -> Vec<serde_json::Value> {
    let all: Vec<(String, serde_json::Value)> = home.records("audit").unwrap();
    let of_event = all.into_iter().map(|(_, record)| record);
    of_event.filter(|record| record["event"] == event).collect()
}

/// Whatever is wrong with an invitation, the server records that it refused it, and why. The record
/// has no text of a malformed one: it may be a secret.
#[test]
fn each_refused_invitation_is_recorded_with_its_reason() {
    let (bed, clock) = Bed::timed();
    let home = &bed.server.state().home;
    let invite = || {
        let address: Address = "onefold://host/web".parse().unwrap();
        let invited = home.invite(address, "write".parse().unwrap(), None).unwrap();
        invited.invitation.code
    };
    let (used, old) = (invite(), invite());
    let id = |code: &str| code.split_once('_').unwrap().0.to_owned();
    home.join(&used, "test", "there").unwrap();
    let mut expected = Vec::new();
    let mut refused = |code: &str, about: &str, reason: &str| {
        clock.advance(Duration::from_secs(2));
        assert!(home.join(code, "test", "there").is_err());
        expected.push((about.to_owned(), reason.to_owned()));
        let all = records(home, "refused invitation");
        let text = |record: &serde_json::Value, field| record[field].as_str().unwrap().to_owned();
        let told: Vec<_> = { all.iter() }
            .map(|record| (text(record, "about"), text(record, "reason")))
            .collect();
        assert_eq!(told, expected);
        assert_eq!(all.last().unwrap()["from"], "there");
    };
    refused("secret", "", "malformed");
    refused("../x_secret", "", "malformed");
    refused("0123456789abcdef_secret", "0123456789abcdef", "unknown");
    refused(&format!("{used}x"), &id(&used), "wrong secret");
    refused(&used, &id(&used), "used already");
    clock.advance(Duration::from_hours(7 * 24));
    refused(&old, &id(&old), "too old");
}

/// Anybody who reaches the server can cause records of refusals, for years.
#[test]
fn old_refusals_go_and_other_events_stay() {
    let (bed, clock) = Bed::timed();
    let home = &bed.server.state().home;
    home.record_event("join", "web").unwrap();
    for number in 0..100 {
        clock.advance(Duration::from_secs(2));
        let from = format!("address {number}");
        home.record_refusal("refused token", "web", &from).unwrap();
    }
    let refused = || {
        let all = records(home, "refused token");
        all.iter().map(|one| one["from"].clone()).collect::<Vec<_>>()
    };
    // The server looked after 65 of them, and keeps 50 here.
    let left: Vec<String> = (15..100).map(|number| format!("address {number}")).collect();
    assert_eq!(refused(), left);
    assert_eq!(records(home, "join").len(), 1);
}

#[test]
fn refused_tokens_and_invitations_are_recorded_once_a_second() {
    let (bed, clock) = Bed::timed();
    let home = &bed.server.state().home;
    let refused = || {
        let mut client = bed.dial();
        client.greet();
        let (token, namespace) = ("none".to_owned(), "web".to_owned());
        let refused = client.ask(request::LOGIN, &Login { token, namespace });
        assert_eq!(refused.unwrap_err().kind, RefusalKind::NotAllowed);
    };
    (0..20).for_each(|_| refused());
    let told = records(home, "refused token");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["about"], &told[0]["from"]),
        (&"web".into(), &"there".into())
    );
    clock.advance(Duration::from_secs(1));
    refused();
    let told = records(home, "refused token");
    assert_eq!(told.len(), 2);
    assert!(told.iter().any(|record| record["unrecorded"] == 19), "{told:?}");

    clock.advance(Duration::from_secs(1));
    let address: Address = "onefold://host/web".parse().unwrap();
    let invited = home.invite(address, "write".parse().unwrap(), None).unwrap();
    let code = format!("{}x", invited.invitation.code);
    for _ in 0..20 {
        assert!(home.join(&code, "test", "there").is_err());
    }
    assert_eq!(records(home, "refused invitation").len(), 1);
    home.join(&invited.invitation.code, "test", "there").unwrap();
}
