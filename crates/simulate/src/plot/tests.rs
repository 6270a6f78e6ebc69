use super::axis::{Span, said};
use super::*;

fn plot(x: Axis, y: Axis, points: Vec<(f64, f64)>) -> Plot {
    Plot {
        name: "plot".to_owned(),
        title: "Speed & <memory>".to_owned(),
        subtitle: "containers of 4 MiB".to_owned(),
        x,
        y,
        series: vec![
            Series::new("one", points),
            Series::new("none", vec![]),
            Series::new("\"quoted\"", vec![(64.0, 0.25)]),
        ],
    }
}

/// Checks that tags close in the reverse order of their opening, and that entities are known.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        for (at, _) in text.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#"];
            assert!(known.iter().any(|known| text[at..].starts_with(known)), "{text}");
        }
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.trim()));
        } else if !tag.ends_with('/') && !tag.starts_with(['!', '?']) {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?}");
}

#[test]
fn plots_are_well_formed_with_any_points() {
    let points = vec![
        (0.0, -1.0),
        (f64::NAN, 1.0),
        (1e-5, 3.0),
        (2.0, f64::INFINITY),
        (1e12, 4e9),
    ];
    for x in [Axis::linear("a"), Axis::doubling("b"), Axis::decades("c")] {
        for y in [Axis::linear("<"), Axis::doubling("&"), Axis::decades("d")] {
            for points in [points.clone(), vec![], vec![(5.0, 5.0)]] {
                assert_well_formed(&svg(&plot(x.clone(), y.clone(), points)));
            }
        }
    }
    let drawn = svg(&plot(
        Axis::doubling("memory, MiB"),
        Axis::linear("speed"),
        vec![(32.0, 0.5), (1024.0, 2.0)],
    ));
    for words in [
        "Speed &amp; &lt;memory&gt;",
        "containers of 4 MiB",
        "memory, MiB",
        "speed",
        "one",
        "1024",
    ] {
        assert!(drawn.contains(words), "{words} is not in {drawn}");
    }
}

#[test]
fn axes_are_marked_where_people_expect_it() {
    let marks = |scale, values: &[f64]| -> Vec<String> {
        let span = Span::around(scale, values.iter().copied());
        span.marks(9).into_iter().map(said).collect()
    };
    assert_eq!(
        marks(Scale::Linear, &[3.0, 480.0]),
        ["0", "100", "200", "300", "400", "500"]
    );
    assert_eq!(
        marks(Scale::Linear, &[8.0, 9.0]),
        ["8", "8.2", "8.4", "8.6", "8.8", "9"]
    );
    assert_eq!(marks(Scale::Doubling, &[32.0, 256.0]), ["32", "64", "128", "256"]);
    assert_eq!(marks(Scale::Doubling, &[1.0, 65536.0]).len(), 9);
    assert_eq!(
        marks(Scale::Decades, &[1.0, 1e9]),
        ["1", "100", "10000", "1 M", "100 M"]
    );
    assert_eq!(marks(Scale::Decades, &[1.0, 20.0]), ["1", "2", "5", "10", "20"]);
    assert_eq!(said(1.23e13), "12.3 T");
    assert_eq!(said(0.000_05), "5e-5");
    // Also where no power is in between, and where there are no values.
    assert!(marks(Scale::Doubling, &[3.0, 3.5]).len() > 1);
    assert!(marks(Scale::Linear, &[f64::NAN]).len() > 1);
}
