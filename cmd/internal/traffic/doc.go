// Package traffic is a wing: a folder of packages, with no code of its own. Its packages answer: how does a server see the load that was
// planned? In go a plan of requests and when they are due; out comes how long each took. It finds no rates and draws no conclusions: wing
// study does.
//
//	load  the load engine: open and closed loop, HTTP/1.1 and HTTP/2
//	h2    calls that share a connection of HTTP/2
//	grpc  what a gRPC call sends, for a message written as JSON
//	hey   hey's command line, and its report
package traffic
