package policy

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// injectKey is the label of pods and namespaces that asks for GOMAXPROCS: true, never-resized or false.
const injectKey = "unthrottle.dev/inject"

// otherPrograms are package lint's programs that are not Go programs, by the last part of their image's name or their command. A test
// holds the two lists together.
var otherPrograms = []string{
	"adminer", "cassandra", "couchdb", "dotnet", "drupal", "eclipse-temurin", "elasticsearch", "envoy", "fluent-bit", "fluentd",
	"gradle", "haproxy", "httpd", "java", "jenkins", "kibana", "logstash", "mariadb", "maven", "memcached", "mongo", "mongodb",
	"mysql", "neo4j", "nginx", "node", "openjdk", "opensearch", "percona-xtradb-cluster", "perl", "php", "php-fpm", "postgres",
	"postgresql", "python", "python3", "rabbitmq", "redis", "redis-server", "ruby", "solr", "sonarqube", "tomcat", "uvicorn",
	"valkey", "varnish", "wordpress", "zookeeper",
}

// A Rule is one that a policy can check.
type Rule struct{ ID, Verdict string }

// rules are those, with package lint's words.
func rules() (told []Rule) {
	verdicts := map[string]string{}
	for _, r := range lint.Rules() {
		verdicts[r.ID] = r.Verdict
	}
	for _, id := range []string{"K001", "K003", "K005", "K006", "K007", "K008", "K011", "K014", "K015"} {
		told = append(told, Rule{id, verdicts[id]})
	}
	return told
}

// amount is the CPU limit or request of something with resources, in thousandths of a CPU, and 0 for none. CEL rounds nothing
// up, and has integers.
func amount(of, kind string) string {
	in := of + ".resources"
	return fmt.Sprintf("has(%s) && has(%s.%s) && 'cpu' in %s.%s ? int(quantity(string(%s.%s['cpu'])).asApproximateFloat() * 1000.0 + 0.5) : 0",
		in, in, kind, in, kind, in, kind)
}

// templateOf is what has the pod's spec and labels: the pod itself, or a template.
func templateOf(object string) string {
	return fmt.Sprintf("(object.kind == 'Pod' ? dyn(%[1]s) : object.kind == 'CronJob' ? dyn(%[1]s).spec.jobTemplate.spec.template : dyn(%[1]s).spec.template)", object)
}

// notExempt holds for objects that no label of theirs takes out, of those in a list, and that do not ask to be left alone wholly.
func notExempt(labels []Label, objects string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "!%s.exists(o, has(o.metadata) && (\n", objects)
	for _, l := range labels {
		has := fmt.Sprintf("'%s' in o.metadata.labels", l.Key)
		if l.Value != "" {
			has += fmt.Sprintf(" && o.metadata.labels['%s'] == '%s'", l.Key, l.Value)
		}
		fmt.Fprintf(&b, "  has(o.metadata.labels) && %s ||\n", has)
	}
	for i, in := range []string{"labels", "annotations"} {
		end := " ||\n"
		if i > 0 {
			end = "))"
		}
		fmt.Fprintf(&b, "  has(o.metadata.%s) && '%s' in o.metadata.%s &&\n    !o.metadata.%s['%s'].matches('^[ ,;._:]*[Kk][0-9]{3}([ ,;._:]|$)')%s",
			in, remedy.IgnoreKey, in, in, remedy.IgnoreKey, end)
	}
	return b.String()
}

// params is a key of the ConfigMap, or another text where it has none.
func params(key string, otherwise Inject) string {
	return fmt.Sprintf("params != null && has(params.data) && '%[1]s' in params.data ? params.data['%[1]s'] : '%[2]s'", key, otherwise)
}

// text is what goes between quotes in CEL.
func text(s string) string { return strings.ReplaceAll(s, "'", `\'`) }

// quoted is a list of texts in CEL.
func quoted(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	return "['" + strings.Join(texts, "', '") + "']"
}

// indent moves all lines but the first to the right.
func indent(by int, text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", by))
}
