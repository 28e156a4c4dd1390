package hey

// Help is the manual of the command.
const Help = `Send load to a web server with hey's command line, and get hey's report.

Usage:
  unthrottle hey [FLAGS] URL

Flags stand before the URL, with one dash or two.

How much:
  -n N       requests in all (200)
  -c N       workers, each of which waits for its response before sending again (50)
  -q N       requests a second per worker (as fast as it can)
  -z D       for this long, instead of -n: 10s, 3m
  -t N       timeout of a request in seconds, 0 for none (20)

What:
  -m METHOD  GET, POST, PUT, DELETE, HEAD, OPTIONS (GET)
  -H "K: V"  a header; may be repeated
  -A TYPE    the Accept header
  -T TYPE    the Content-Type header (text/html)
  -U NAME    the User-Agent header, followed by "hey/0.0.1"
  -a U:P     user and password
  -d TEXT    the body; -D FILE reads it from a file
  -host H    the Host header, instead of the URL's host

How:
  -x H:P     send the requests through this proxy
  -h2        HTTP/2, if TLS negotiates it
  -disable-compression, -disable-keepalive, -disable-redirects
  -cpus N    CPUs that the generator uses

Report:
  -o FORMAT  csv, or a template for hey's Report: '{{ jsonify . }}'
  -strict    exit with 1 if every request failed

Below hey's report, three lines say how long users would wait, or how to find that out.

Exit codes:
  0 done, whatever happened to the requests · 1 wrong usage, or see -strict · 2 a bad flag

Example:
  unthrottle hey -z 10s -c 20 -q 10 http://localhost:8080/
`
