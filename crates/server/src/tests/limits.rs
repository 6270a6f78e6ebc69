//! Tokens that are revoked, and quotas that are used up, while an operation runs.

use onefold::calls::Call;

use super::*;

/// How long an operation takes at 100 bytes a second, by the server's clock.
fn takes(bed: &Bed, clock: &ManualClock, kind: u8, body: &[u8]) -> (Duration, Vec<u8>) {
    let change = |limits: crate::Limits| crate::Limits {
        rate_bytes: Some(100),
        ..limits
    };
    let mut client = bed.client("web", "write,list");
    bed.home().change_limits("web", change).unwrap();
    let began = clock.monotonic();
    let number = client.send(kind, body);
    let answer = loop {
        let (kind, answered, body) = client.next().expect("an answer");
        if answered == number && kind == reply::ANSWER {
            break body;
        }
    };
    (clock.monotonic() - began, answer)
}

/// What a client sends and receives passes at its namespace's rate, whatever it asks for.
#[test]
fn answers_to_operations_pass_at_the_rate() {
    let (bed, clock) = Bed::timed();
    let ids: Vec<SessionId> = (0..3).map(|_| honest(&mut bed.client("web", "write"))).collect();
    let call = serde_json::to_vec(&Call::Layouts(ids)).unwrap();
    for (kind, body) in [(request::LIST, Vec::new()), (request::CALL, call)] {
        let (took, answer) = takes(&bed, &clock, kind, &body);
        assert!(answer.len() > 300, "{}", answer.len());
        // The bytes of half a second may come at once.
        let least = Duration::from_millis((answer.len() + body.len()) as u64 * 10 - 500);
        assert!(took >= least, "{kind}: {took:?} for {}", answer.len());
    }
}

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
        SystemClock.sleep(Duration::from_millis(50));
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

/// A client reads a backup and then sends nothing. The server closes the connection by itself, once
/// its token is revoked, and frees what it holds.
#[test]
fn a_revoked_token_ends_an_idle_connection() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let [mut revoked, mut other] = [(), ()].map(|()| bed.client("web", "read"));
    for client in [&mut revoked, &mut other] {
        client.ask(request::READ, &vec![id]).unwrap();
    }
    let mut tokens = bed.home().tokens().unwrap();
    tokens.retain(|(_, token)| token.rights == "read");
    tokens.sort_by_key(|(_, token)| token.made);
    bed.home().revoke(&tokens[0].0).unwrap();
    let end = revoked.reader.next(FRAME_BYTES_MAX);
    assert!(matches!(end, Ok(None)), "{end:?}");
    revoked.thread.join().unwrap().unwrap();
    // What has another token goes on.
    other.ask(request::END, &()).unwrap();
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

#[test]
fn long_answers_have_several_frames() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let none: crate::Deadline = Arc::new(|_| ());
    let peer = crate::peer::Peer::new(Channel::from(theirs), &none);
    let body: Vec<u8> = (0..=250).cycle().take(2 * FRAME_BYTES_MAX + 5).collect();
    let sent = body.clone();
    let thread = thread::spawn(move || {
        peer.answer(7, &sent).unwrap();
        peer.answer(8, &sent[..FRAME_BYTES_MAX]).unwrap();
    });
    let mut reader = FrameReader::new(Channel::from(ours).input, Traffic::default());
    let mut got = Vec::new();
    let mut kinds = Vec::new();
    for _ in 0..4 {
        let (head, part) = reader.next(FRAME_BYTES_MAX).unwrap().unwrap();
        kinds.push((head.kind, head.number));
        if head.number == 7 {
            got.extend_from_slice(&part);
        }
    }
    thread.join().unwrap();
    assert!(got == body);
    assert_eq!(
        kinds,
        [
            (reply::PART, 7),
            (reply::PART, 7),
            (reply::ANSWER, 7),
            (reply::ANSWER, 8)
        ]
    );
}

/// The least memory has room for two backups, and one owner has one of these places.
#[test]
fn a_backup_waits_for_its_place_and_others_do_not_wait_for_it() {
    let bed = Bed::new();
    let token = bed.token("web", "write");
    let (mut first, mut second) = (bed.logged_in("web", token.clone()), bed.logged_in("web", token));
    first.begin(Parents::LatestTree).unwrap();
    let mut begin = Client::beginning(Parents::LatestTree);
    begin.attempt = 2;
    second.send(request::BEGIN, &begin.to_bytes());
    let has_begun = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&has_begun);
    let waiting = thread::spawn(move || {
        let (kind, ..) = second.next().unwrap();
        tells.store(true, Ordering::SeqCst);
        assert_eq!(kind, reply::ANSWER);
        second.ask(request::END, &()).unwrap();
    });
    honest(&mut bed.client("mail", "write"));
    SystemClock.sleep(Duration::from_millis(300));
    assert!(!has_begun.load(Ordering::SeqCst));
    first.ask(request::END, &()).unwrap();
    waiting.join().unwrap();
}

/// A client that lost its connection ends the backup that it had there.
#[test]
fn a_lost_backup_ends_before_it_is_continued() {
    let bed = Bed::new();
    let token = bed.token("web", "write");
    let mut lost = bed.logged_in("web", token.clone());
    let mut begin = Client::beginning(Parents::LatestTree);
    begin.attempt = 1;
    lost.ask(request::BEGIN, &begin).unwrap();
    let mut next = bed.logged_in("web", token);
    let refused = next.ask(request::BEGIN, &begin).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Busy, "its number is in use: {refused}");
    begin.attempt = 2;
    begin.replaces = vec![1, 77];
    next.ask(request::BEGIN, &begin).unwrap();
    assert!(lost.next().is_none(), "its connection was closed");
    next.ask(request::END, &()).unwrap();
    // Another namespace ends none of these.
    begin.attempt = 3;
    next.ask(request::BEGIN, &begin).unwrap();
    let mut other = bed.client("mail", "write");
    begin.replaces = vec![3];
    other.ask(request::BEGIN, &begin).unwrap();
    next.ask(request::END, &()).unwrap();
}

/// Whether a backup was committed is told by its series and times, to its namespace alone.
#[test]
fn a_commit_whose_answer_was_lost_is_found() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    let id = honest(&mut client);
    let about = About {
        name: Client::beginning(Parents::LatestTree).name,
        ..about()
    };
    let sought = |about: &About| wire::Sought {
        attempt: 1,
        session: id,
        about: about.clone(),
    };
    let found = |client: &mut Client, about: &About| {
        let found = client.ask(request::COMMITTED, &sought(about)).unwrap();
        let found = Vec::<CommittedBackup>::from_bytes(&found).unwrap();
        found.iter().map(|one| one.session).collect::<Vec<_>>()
    };
    assert_eq!(found(&mut client, &about), [id]);
    let later = About {
        source_time: UnixNanos::new(2),
        ..about.clone()
    };
    assert_eq!(found(&mut client, &later), []);
    assert_eq!(found(&mut bed.client("mail", "write"), &about), []);
    let refused = bed
        .client("web", "read,list")
        .ask(request::COMMITTED, &sought(&about));
    assert_eq!(refused.unwrap_err().kind, RefusalKind::NotAllowed);
}

/// Offers and sends a chunk of this byte, and commits nothing.
pub(super) fn all_but_committed(client: &mut Client, byte: u8) -> SessionId {
    let Begun { session, terms, .. } = client.begin(Parents::Named(Vec::new())).unwrap();
    let chunk = [byte; 60_000];
    client.submit(vec![offered(segment(&terms, children(&terms, &[&chunk]))), end()]);
    let verdicts = client.verdicts_until(|verdict| *verdict == Verdict::Done);
    for verdict in &verdicts {
        if let Verdict::Segment { wanted, .. } = verdict {
            client.submit(vec![region(&terms, wanted[0].new, &chunk, &chunk)]);
        }
    }
    session
}

/// A client of a tunnel asks another process than the one that it sent the commit to.
#[test]
fn a_commit_that_another_process_still_makes_is_waited_for() {
    let bed = Bed::new();
    let token = bed.token("web", "write");
    let server = Server::open(bed.home(), &Credential::None, &OpenOptions::default(), 0).unwrap();
    let other = Bed {
        folder: tempfile::tempdir().unwrap(),
        server: Arc::new(server),
    };
    let about = About {
        name: Client::beginning(Parents::LatestTree).name,
        ..about()
    };
    let sought = |session| wire::Sought {
        attempt: 1,
        session,
        about: about.clone(),
    };
    let found = |body: &[u8]| {
        let found = Vec::<CommittedBackup>::from_bytes(body).unwrap();
        found.iter().map(|one| one.session).collect::<Vec<_>>()
    };
    let mut first = bed.logged_in("web", token.clone());
    let session = all_but_committed(&mut first, 1);
    let mut second = other.logged_in("web", token.clone());
    let number = second.send(request::COMMITTED, &sought(session).to_bytes());
    SystemClock.sleep(Duration::from_millis(300));
    first.ask(request::COMMIT, &about).unwrap();
    let (kind, answered, body) = second.next().expect("an answer");
    assert_eq!((kind, answered), (reply::ANSWER, number));
    assert_eq!(found(&body), [session]);

    // The first process ends without a commit.
    let session = all_but_committed(&mut first, 2);
    second.send(request::COMMITTED, &sought(session).to_bytes());
    SystemClock.sleep(Duration::from_millis(300));
    drop(first);
    let (kind, _, body) = second.next().expect("an answer");
    assert_eq!((kind, found(&body)), (reply::ANSWER, vec![]));

    // It takes long: the client asks again.
    let mut first = bed.logged_in("web", token.clone());
    let session = all_but_committed(&mut first, 3);
    let (mut timed, _) = Bed::timed();
    let mut home = bed.home();
    home.env.clock = Arc::clone(&timed.server.state().home.env.clock);
    let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
    timed.server = Arc::new(server);
    let refused = timed
        .logged_in("web", token)
        .ask(request::COMMITTED, &sought(session));
    assert_eq!(refused.unwrap_err().kind, RefusalKind::Busy);
}

#[test]
fn an_expired_token_has_no_access() {
    let bed = Bed::new();
    let address: Address = "onefold://host/web".parse().unwrap();
    let home = bed.home();
    let invited = home.invite(address, "write".parse().unwrap(), Some(1)).unwrap();
    let token = home
        .join(&invited.invitation.code, "test", "there")
        .unwrap()
        .token;
    SystemClock.sleep(Duration::from_millis(2));
    let mut client = bed.dial();
    client.greet();
    let namespace = "web".to_owned();
    let refused = client
        .ask(request::LOGIN, &Login { token, namespace })
        .unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NotAllowed, "{refused}");
}

/// A client announces the longest message, and leaves. Others do not wait for what never came.
#[test]
fn bytes_that_never_come_cost_no_rate() {
    let (bed, clock) = Bed::timed();
    honest(&mut bed.client("web", "write"));
    let change = |limits: crate::Limits| crate::Limits {
        rate_bytes: Some(1_000_000),
        ..limits
    };
    bed.home().change_limits("web", change).unwrap();
    for _ in 0..10 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = Arc::clone(&bed.server);
        let deadline: crate::Deadline = Arc::new(|_| ());
        let serving = thread::spawn(move || server.serve(Channel::from(theirs), "there", &deadline));
        let mut raw = ours.try_clone().unwrap();
        let channel = Channel::from(ours);
        let mut client = Client {
            reader: FrameReader::new(channel.input, Traffic::default()),
            writer: FrameWriter::new(channel.output, Traffic::default()),
            next: 0,
            thread: serving,
        };
        client.greet();
        let (token, namespace) = (bed.token("web", "list"), "web".to_owned());
        client.ask(request::LOGIN, &Login { token, namespace }).unwrap();
        let stated = u32::try_from(FRAME_BYTES_MAX + 5).unwrap();
        let head = [&stated.to_le_bytes()[..], &[request::LIST], &9_u32.to_le_bytes()].concat();
        std::io::Write::write_all(&mut raw, &head).unwrap();
        raw.shutdown(std::net::Shutdown::Both).unwrap();
        client.thread.join().unwrap().ok();
    }
    let began = clock.monotonic();
    bed.client("web", "list").ask(request::LIST, &()).ok();
    let took = clock.monotonic() - began;
    assert!(took < Duration::from_secs(2), "{took:?}");
}
