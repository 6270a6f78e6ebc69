use super::*;

#[test]
fn sleeping_moves_a_manual_clock_and_every_clone_of_it() {
    let clock = ManualClock::default();
    let other = clock.clone();
    let before = clock.wall();
    clock.sleep(Duration::from_secs(3));
    assert_eq!(other.wall().get() - before.get(), 3_000_000_000);
    assert_eq!(other.monotonic(), Duration::from_secs(3));
    assert_eq!(other.monotonic_with_suspend(), Duration::from_secs(3));
}

#[test]
fn a_suspended_system_does_not_move_the_monotonic_clock() {
    let clock = ManualClock::default();
    clock.suspend(Duration::from_secs(60));
    assert_eq!(clock.monotonic(), Duration::ZERO);
    assert_eq!(clock.monotonic_with_suspend(), Duration::from_secs(60));
}

#[test]
fn setting_the_wall_clock_back_leaves_the_monotonic_clocks_alone() {
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(5));
    clock.set_wall(UnixNanos::new(0));
    assert_eq!(clock.wall(), UnixNanos::new(0));
    assert_eq!(clock.monotonic(), Duration::from_secs(5));
}

#[test]
fn the_system_clocks_move_on() {
    let clock = SystemClock;
    let (wall, monotonic, with_suspend) = (clock.wall(), clock.monotonic(), clock.monotonic_with_suspend());
    clock.sleep(Duration::from_millis(2));
    assert!(clock.monotonic() >= monotonic + Duration::from_millis(2));
    assert!(clock.monotonic_with_suspend() >= with_suspend + Duration::from_millis(2));
    assert!(
        wall.get() > 1_600_000_000_000_000_000,
        "the machine's clock is not set"
    );
}
