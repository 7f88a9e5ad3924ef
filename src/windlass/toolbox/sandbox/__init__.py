"""The sandbox: paths beneath an anchor, and commands under Landlock, seccomp and bubblewrap."""
