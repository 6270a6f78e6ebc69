//! Collects the outputs of a test, one after another.

use std::cell::RefCell;
use std::io::Write;

#[derive(Debug, Default)]
pub(crate) struct TestOutput(RefCell<Vec<Vec<u8>>>);

/// Writes to the last output.
#[derive(Debug)]
pub(crate) struct Last<'a>(&'a TestOutput);

impl TestOutput {
    /// Begins the next output.
    pub(crate) fn open(&self) -> Last<'_> {
        self.0.borrow_mut().push(Vec::new());
        Last(self)
    }

    pub(crate) fn into_each(self) -> Vec<Vec<u8>> {
        self.0.into_inner()
    }
}

impl Write for Last<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.0.borrow_mut().last_mut().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
