//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/unthrottle/unthrottle/bench/internal/command"
)

// A subject is a program that is tuned.
type subject struct {
	name   string
	module string // what go install takes; "": it is unthrottle's own

	// args makes its files in its directory, and says how it is called: to serve at an address, if it is a server.
	args func(p *program) ([]string, error)
	path string // of what is loaded; "": a job
}

// Programs that others wrote are unchanged, at these versions.
var subjects = []subject{
	{"prime", "", builtIn("serve", "--listen", "ADDRESS"), "/isPrime/300007"},
	{"alloc", "", builtIn("serve", "--listen", "ADDRESS"), "/work?cpu=20us&alloc=64k"},
	{"agent", "", builtIn("workload", "agent"), ""},
	{"sieve", "", builtIn("workload", "sieve"), ""},
	{"caddy", "github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9", caddy, "/page.html"},
	{"present", "golang.org/x/tools/cmd/present@v0.52.0", present, "/talk.slide"},
	{"exporter", "github.com/prometheus/node_exporter@v1.12.1", exporter, "/metrics"},
	{"minify", "github.com/tdewolff/minify/v2/cmd/minify@v2.24.25", minify, ""},
	{"httpbin", "github.com/mccutchen/go-httpbin/v2/cmd/go-httpbin@v2.26.0", httpbin, "/gzip"},
	{"nats", "github.com/nats-io/nats-server/v2@v2.15.2", nats, "/varz"},
	{"pprof", "github.com/google/pprof@v0.0.0-20260906184651-6331bc6350fe", pprof, "/ui/top"},
	{"opa", "github.com/open-policy-agent/opa@v1.22.2", opa, "/v1/data/shop/allowed?input=" + url.QueryEscape(question)},
	{"s3", "github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0", s3, "/pages"},
	{"shfmt", "mvdan.cc/sh/v3/cmd/shfmt@v3.14.1", shfmt, ""},
	{"esbuild", "github.com/evanw/esbuild/cmd/esbuild@v0.28.2", esbuild, ""},
	{"yaegi", "github.com/traefik/yaegi/cmd/yaegi@v0.16.1", yaegi, ""},
}

const question = `{"user": "user150", "shelf": 7}`

// A program is a subject that is ready to be run.
type program struct {
	name  string
	args  []string
	url   string // "": a job
	limit float64
	dir   string // of its own
	home  string // the same for running it: the user nobody may write there

	file    string // that go install has made
	address string // to listen on
}

// prepare makes a subject ready, with all that it reads and writes in a new directory.
func (b *bench) prepare(s subject, limit float64) (p *program, err error) {
	p = &program{name: s.name, limit: limit, file: b.command}
	if s.module != "" {
		p.file = filepath.Join(b.dir, binary(s.module))
	}
	if p.dir, err = os.MkdirTemp(b.dir, s.name+"-"); err != nil {
		return nil, err
	}
	p.home = filepath.Join(p.dir, "home")
	if err := errors.Join(os.Chmod(p.dir, 0o755), os.Mkdir(p.home, 0o755)); err != nil {
		return nil, err
	}
	if b.nobody {
		if err := os.Chown(p.home, nobody, nobody); err != nil {
			return nil, err
		}
	}
	if p.address, err = command.FreeAddress(); err != nil {
		return nil, err
	}
	if s.path != "" {
		p.url = "http://" + p.address + s.path
	}
	p.args, err = s.args(p)
	return p, err
}

// binary is the name that go install gives a program.
func binary(module string) string {
	name, _, _ := strings.Cut(module, "@")
	if base := path.Base(name); base != "v2" && base != "v3" {
		return base
	}
	return path.Base(path.Dir(name))
}

// builtIn is one of unthrottle's own.
func builtIn(args ...string) func(p *program) ([]string, error) {
	return func(p *program) ([]string, error) {
		command := []string{p.file}
		for _, a := range args {
			if a == "ADDRESS" {
				a = p.address
			}
			command = append(command, a)
		}
		return command, nil
	}
}

// write makes files in the program's directory and returns that directory's name.
func (p *program) write(dir string, files map[string]string) (string, error) {
	dir = filepath.Join(p.dir, dir)
	err := os.MkdirAll(dir, 0o755)
	for name, content := range files {
		err = cmp.Or(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return dir, err
}

// caddy serves a file of 64 KB.
func caddy(p *program) ([]string, error) {
	root, err := p.write("files", map[string]string{"page.html": page(64 << 10)})
	return []string{p.file, "file-server", "--listen", p.address, "--root", root}, err
}

// present renders slides by html/template.
func present(p *program) ([]string, error) {
	const slide = "## Slide\n\nSome text with *emphasis* and `code`.\n\n- one\n- two\n- three\n\n"
	slides := "# Talk\n\nSpeaker\n\n" + strings.Repeat(slide, 30)
	root, err := p.write("talks", map[string]string{"talk.slide": slides})
	return []string{p.file, "-http", p.address, "-content", root}, err
}

// exporter reports figures of this machine.
func exporter(p *program) ([]string, error) {
	return []string{p.file, "--web.listen-address=" + p.address, "--log.level=error", "--web.max-requests=0"}, nil
}

// minify makes pages smaller, many at once.
func minify(p *program) ([]string, error) {
	files := map[string]string{}
	for i := range 60 {
		files[fmt.Sprintf("%d.html", i)] = page(256 << 10)
	}
	in, err := p.write("pages", files)
	return []string{p.file, "--quiet", "-r", "-o", filepath.Join(p.home, "smaller") + "/", in + "/"}, err
}

// page is a page of about size bytes.
func page(size int) string {
	const head, foot = "<!doctype html>\n<html><head><title>Page</title></head><body>\n", "</body></html>\n"
	const part = "<div class=\"row  wide\">\n  <!-- a row -->\n  <p>Some   text <b>here</b>.</p>\n" +
		"  <a href=\"https://example.org/a?b=c\">A link</a>\n</div>\n"
	return head + strings.Repeat(part, size/len(part)) + foot
}

// httpbin compresses a small answer: a compressor a request is much garbage.
func httpbin(p *program) ([]string, error) {
	host, port, err := net.SplitHostPort(p.address)
	return []string{p.file, "-host", host, "-port", port, "-log-level", "OFF"}, err
}

// nats reports what it does on its page for monitoring.
func nats(p *program) ([]string, error) {
	clients, err := command.FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return nil, err
	}
	_, other, err := net.SplitHostPort(clients)
	return []string{p.file, "-a", host, "-p", other, "-m", port}, err
}

// pprof renders the table of a profile of the Go compiler.
func pprof(p *program) ([]string, error) {
	file := filepath.Join(p.dir, "cpu.pprof")
	cmd := exec.Command("go", "build", "-gcflags=-cpuprofile="+file, "go/types")
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if _, err := command.Output(cmd); err != nil {
		return nil, err
	}
	return []string{p.file, "-http", p.address, "-no_browser", "-symbolize=none", file}, os.Chmod(file, 0o644)
}

// opa decides by a policy whether someone may take something from a shelf.
func opa(p *program) ([]string, error) {
	const policy = `package shop

default allowed := false

allowed if {
	some role in data.users[input.user]
	some grant in data.roles[role]
	grant.low <= input.shelf
	grant.high >= input.shelf
	not closed
}

closed if {
	some name in data.users[input.user]
	startswith(name, "barred")
}
`
	var users, roles []string
	for i := range 200 {
		users = append(users, fmt.Sprintf(`"user%d": ["role%d", "role%d", "role%d"]`, i, i%20, i%7, i%3))
	}
	for i := range 20 {
		const role = `"role%d": [{"low": %d, "high": %d}, {"low": %d, "high": %d}]`
		roles = append(roles, fmt.Sprintf(role, i, i, i+1, 100+i, 120+i))
	}
	data := fmt.Sprintf(`{"users": {%s}, "roles": {%s}}`, strings.Join(users, ", "), strings.Join(roles, ", "))
	dir, err := p.write("policy", map[string]string{"shop.rego": policy, "data.json": data})
	return []string{
		p.file, "run", "--server", "--addr", p.address, "--log-level", "error", "--skip-version-check",
		filepath.Join(dir, "shop.rego"), filepath.Join(dir, "data.json"),
	}, err
}

// s3 lists what is in a bucket, as XML.
func s3(p *program) ([]string, error) {
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("%d.txt", i)] = "a page\n"
	}
	dir, err := p.write("pages", files)
	return []string{
		p.file, "-quiet", "-host", p.address, "-backend", "directfs", "-directfs.path", dir, "-directfs.bucket", "pages",
	}, err
}

// shfmt reads shell scripts and writes them as they should be.
func shfmt(p *program) ([]string, error) {
	var script strings.Builder
	script.WriteString("#!/bin/bash\n")
	for i := range 3000 {
		fmt.Fprintf(&script, "step%d() {\n  local name=$1\n  if [[ -n $name && $name != x%d ]]; then\n", i, i)
		fmt.Fprintf(&script, "      echo \"step: ${name%%%%.*}\" | sed -e s/a/b/ | sort -u > out%d\n  fi\n}\n", i)
	}
	files := map[string]string{}
	for i := range 6 {
		files[fmt.Sprintf("%d.sh", i)] = script.String()
	}
	dir, err := p.write("scripts", files)
	return []string{p.file, dir}, err
}

// esbuild makes one file of 200 modules.
func esbuild(p *program) ([]string, error) {
	files := map[string]string{}
	var all strings.Builder
	for i := range 200 {
		var module strings.Builder
		for k := range 100 {
			fmt.Fprintf(&module, "export function f%d_%d(a, b) { const sum = a + b * %d; return [sum, a].map((x) => ({x, name: \"f%d\"})); }\n", i, k, k, k)
		}
		files[fmt.Sprintf("m%d.js", i)] = module.String()
		fmt.Fprintf(&all, "import * as m%d from \"./m%d.js\"; console.log(m%d);\n", i, i, i)
	}
	files["all.js"] = all.String()
	dir, err := p.write("source", files)
	return []string{
		p.file, "--bundle", "--minify", "--sourcemap", "--log-level=error", "--outfile=" + filepath.Join(p.home, "out.js"), filepath.Join(dir, "all.js"),
	}, err
}

// yaegi interprets a program that counts words.
func yaegi(p *program) ([]string, error) {
	const source = `package main

import "fmt"

func main() {
	words := map[string]int{}
	for i := 0; i < 200000; i++ {
		words[fmt.Sprint("word", i%5000)]++
	}
	fmt.Println(len(words))
}
`
	dir, err := p.write("script", map[string]string{"words.go": source})
	return []string{p.file, "run", filepath.Join(dir, "words.go")}, err
}
