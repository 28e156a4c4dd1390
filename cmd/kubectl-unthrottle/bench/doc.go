// Package bench answers: what do lint and audit cost, in time and memory, for a large repository and a large cluster? What does the
// agent cost, and does it grow while pods come and go? Its tests make ten thousand pod templates, in files and in one stream, and a
// cluster of a thousand nodes and ten thousand pods with an agent on each node, and time the command alongside other linters; they
// run the agent next to a node's programs. They run only on request; README.md has the figures and the command.
package bench
