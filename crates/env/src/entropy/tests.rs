use super::*;

fn draw(entropy: &dyn Entropy) -> [u8; 32] {
    let mut out = [0; 32];
    entropy.fill(&mut out);
    out
}

#[test]
fn a_seed_repeats_itself_and_another_does_not() {
    let (a, b, c) = (
        SeededEntropy::new(7),
        SeededEntropy::new(7),
        SeededEntropy::new(8),
    );
    let first = draw(&a);
    assert_eq!(first, draw(&b));
    assert_ne!(first, draw(&c));
    assert_ne!(first, draw(&a), "the stream moves on");
}

#[test]
fn the_system_does_not_repeat_itself() {
    assert_ne!(draw(&SystemEntropy), draw(&SystemEntropy));
}
