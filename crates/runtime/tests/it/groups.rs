//! Groups and what a crash takes back.
