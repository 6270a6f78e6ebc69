//! Recipe nodes, trees and splicing
