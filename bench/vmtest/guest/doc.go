// Package guest holds the tests that run inside the virtual machine of package
// vmtest. They answer: does the library agree with a real kernel, and does the
// command explain agree with real programs?
//
// A test of the library makes cgroups (group), starts processes in them (agent),
// asks these what they see, and changes the limits below them. An agent is the test
// binary itself, started again in another role.
//
// A test of explain runs subjects, which are programs of their own, at a place:
// a group, with a box that says what can be seen of the cgroups. What it expects is
// worked out by hand in a table of layouts.
//
// A test whose name begins with TestScope runs in the machine with systemd, and no other does. It starts the command at a seat: as root in
// a service, or as a user who has logged in, sits at a desktop, or has no manager that could help.
//
// Nothing goes in but the machine's number of CPUs and its programs; what comes out
// is the tests' result.
//
// Outside of the machine every test skips: it would change the cgroups of the
// host. Waiting is always polling with a long deadline; how fast something
// happens is never a reason to fail.
package guest
