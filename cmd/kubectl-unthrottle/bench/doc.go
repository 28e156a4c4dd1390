// Package bench answers: what do lint and audit cost, in time and memory, for a large repository and a large cluster? Its tests
// make ten thousand pod templates, in files and in one stream, and a cluster of a thousand nodes and ten thousand pods with an agent
// on each node, and time the command beside other linters. They run only if they are asked to; README.md has the figures and the
// command.
package bench
