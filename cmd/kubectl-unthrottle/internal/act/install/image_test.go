package install

import "testing"

func TestBeside(t *testing.T) {
	for name, want := range map[string]string{
		"ghcr.io/unthrottle/kubectl-unthrottle:latest":        "ghcr.io/unthrottle/unthrottle:latest",
		"registry.example.com:5000/tools/kubectl-unthrottle":  "registry.example.com:5000/tools/unthrottle",
		"registry.example.com:5000/kubectl-unthrottle:v1.2.3": "registry.example.com:5000/unthrottle:v1.2.3",
		"kubectl-unthrottle:1":                                "unthrottle:1",

		"registry.example.com/my-kubectl-unthrottle:1":                                      "",
		"registry.example.com/agent:1":                                                      "",
		"r/kubectl-unthrottle@sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef": "",
		"r/kubectl-unthrottle:":                                                             "",
		"r/kubectl-unthrottle:a b":                                                          "",
		"":                                                                                  "",
	} {
		if got := beside(name, "kubectl-unthrottle", "unthrottle"); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestAgentsBeside(t *testing.T) {
	for name, want := range map[string]string{
		"registry.example.com:5000/tools/unthrottle:1": "registry.example.com:5000/tools/kubectl-unthrottle:1",
		"unthrottle": "kubectl-unthrottle",
		"registry.example.com/kubectl-unthrottle:v1.2.3":    "registry.example.com/kubectl-unthrottle:v1.2.3",
		"registry.example.com/tools:1":                      "",
		"registry.example.com/unthrottle@sha256:0123456789": "",
	} {
		if got := AgentsBeside(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
