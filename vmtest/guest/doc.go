// Package guest holds the tests that run inside the virtual machine of package
// vmtest. They answer: does the library agree with a real kernel?
//
// A test makes cgroups (group), starts processes in them (agent), asks these
// what they see, and changes the limits below them. An agent is the test binary
// itself, started again in another role. Nothing goes in but the machine's number
// of CPUs; what comes out is the tests' result.
//
// Outside of the machine every test skips: it would change the cgroups of the
// host. Waiting is always polling with a long deadline; how fast something
// happens is never a reason to fail.
package guest
