use super::*;

#[test]
fn percentiles_are_upper_bounds_within_a_quarter() {
    let histogram = Histogram::default();
    assert_eq!(histogram.summary(), Latency::default());
    for n in 1..=1000_u64 {
        histogram.add(Duration::from_micros(n));
    }
    let summary = histogram.summary();
    assert_eq!(summary.count, 1000);
    assert!((summary.mean_us - 500.5).abs() < 0.001, "{summary:?}");
    for (found, exact) in [
        (summary.p50_us, 500.0),
        (summary.p99_us, 990.0),
        (summary.p999_us, 999.0),
    ] {
        assert!(found >= exact && found <= exact * 1.26, "{found} for {exact}");
    }
}

#[test]
fn the_shortest_and_the_longest_time_are_counted() {
    let histogram = Histogram::default();
    histogram.add(Duration::ZERO);
    histogram.add(Duration::from_secs(1 << 40));
    let summary = histogram.summary();
    assert_eq!(summary.count, 2);
    assert!(summary.p50_us < 0.01 && summary.p999_us > 1e8, "{summary:?}");
}
