//! The onefold command line: arguments, progress, printing
