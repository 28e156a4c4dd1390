package lint

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

var update = flag.Bool("update", false, "write the table of docs/rules/README.md")

// The cases of each rule. What is wanted is all that Check finds: rule/severity.
var cases = []struct {
	name  string
	w     *workload.Workload
	known Known
	want  string
	say   string // in what is found
}{
	// K001
	{"divisor 1m", build(limit("250m"), ref("GOMAXPROCS", "limits.cpu", "1m")), Known{}, "K001/critical", "GOMAXPROCS is 250 for 0.25 CPUs"},
	{"divisor 1m as 0.001", build(limit("250m"), ref("GOMAXPROCS", "limits.cpu", "0.001")), Known{}, "K001/critical", ""},
	{"divisor 1m of a request", build(limit("2"), request("100m"), ref("GOMAXPROCS", "requests.cpu", "1m")), Known{}, "K001/critical", "GOMAXPROCS is 100"},
	{"divisor 1m, no limit", build(ref("GOMAXPROCS", "limits.cpu", "1m")), Known{}, "K001/critical", "a thousand times"},
	{"divisor 1m of a pod's limit", build(pod("2"), ref("GOMAXPROCS", "limits.cpu", "1m")), Known{}, "K001/critical", "GOMAXPROCS is 2,000"},
	{"divisor 1m, limit not known", build(limit("?"), ref("GOMAXPROCS", "limits.cpu", "1m")), Known{}, "", ""},
	{"divisor 1m in nginx", build(limit("1"), image("nginx:1.29"), ref("GOMAXPROCS", "limits.cpu", "1m")), Known{}, "", ""},
	{"divisor 1m, not Go", build(limit("1"), ref("GOMAXPROCS", "limits.cpu", "1m")), notGo, "", ""},
	{"divisor 1m for a limit of 1m", build(limit("1m"), ref("GOMAXPROCS", "limits.cpu", "1m")), Known{}, "", ""},
	{"divisor 1000m is 1", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1000m")), Known{}, "", ""},
	{"divisor 100m", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "100m")), Known{}, "K001/warning", "refuses"},
	{"init container", build(role(workload.Init), limit("1"), ref("GOMAXPROCS", "limits.cpu", "1m")), Known{}, "K001/info", ""},
	{"memory in MiB", build(mem("200m", "200m"), ref("GOMEMLIMIT", "limits.memory", "1Mi")), Known{}, "K001/critical", "GOMEMLIMIT is 200 bytes"},
	{"memory in bytes", build(mem("200m", "200m"), ref("GOMEMLIMIT", "limits.memory", "1")), Known{}, "K015/warning", "all of the memory limit of 200m"},
	{"memory in thousands", build(mem("200m", "200m"), ref("GOMEMLIMIT", "limits.memory", "1k")), Known{}, "K001/critical", ""},
	{"memory not known", build(mem("?", "?"), ref("GOMEMLIMIT", "limits.memory", "1Mi")), Known{}, "", ""},

	// K002
	{"no divisor", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "")), Known{}, "K002/info", "add divisor"},
	{"no divisor, with memory", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", ""), mem("1g", "512m"), ref("GOMEMLIMIT", "limits.memory", "")), Known{}, "K015/warning K002/info", ""},
	{"divisor 0", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "0")), Known{}, "", ""},
	{"no divisor, limit not known", build(limit("?"), ref("GOMAXPROCS", "limits.cpu", "")), Known{}, "", ""},
	{"no divisor in nginx", build(limit("2"), image("nginx"), ref("GOMAXPROCS", "limits.cpu", "")), Known{}, "K002/info", ""},
	{"no divisor, live", onCluster(build(limit("2"), ref("GOMAXPROCS", "limits.cpu", ""))), go124, "", ""},

	// K003
	{"no limit", build(ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "K003/warning", "the node's CPUs"},
	{"no limit nor divisor", build(request("500m"), ref("GOMAXPROCS", "limits.cpu", "")), Known{}, "K003/warning", "requests.cpu"},
	{"limit 0 is none", build(limit("0"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "K003/warning", ""},
	{"no limit, a node", build(ref("GOMAXPROCS", "limits.cpu", "1")), on(Known{}, 64), "K003/warning", "up to 64"},
	{"no limit, LimitRange", build(ref("GOMAXPROCS", "limits.cpu", "1"), around(func(a *workload.Around) { a.Default = cpus("1") })), Known{}, "", ""},
	{"no limit, LimitRange's max", build(ref("GOMAXPROCS", "limits.cpu", "1"), around(func(a *workload.Around) { a.LimitMax = cpus("1") })), Known{}, "", ""},
	{"no limit, LimitRange not known", build(ref("GOMAXPROCS", "limits.cpu", "1"), around(func(a *workload.Around) { a.Default = cpus("?") })), Known{}, "", ""},
	{"no limit, pod's", build(pod("2"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "", ""},
	{"no limit, quota", build(ref("GOMAXPROCS", "limits.cpu", "1"), around(func(a *workload.Around) { a.Quota = true })), Known{}, "", ""},
	{"no limit, not known", build(limit("?"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "", ""},
	{"no limit in redis", build(image("docker.io/bitnami/redis:8"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "", ""},
	{"redis_exporter is Go", build(image("oliver006/redis_exporter"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "K003/warning", ""},
	{"no limit, the command sets it", build(command("sh", "-c", "export GOMAXPROCS; exec app"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "", ""},

	// K004
	{"pinned", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "", ""},
	{"pinned by a number", build(limit("2"), procsIs("2")), Known{}, "K004/info", "older program needs it"},
	{"pinned by a number that no reference makes", build(limit("500m"), procsIs("2")), Known{}, "", ""},
	{"pinned by the number that a reference makes", build(limit("500m"), procsIs("1")), Known{}, "K004/info", ""},
	{"pinned by a number that no reference makes, Go 1.26", build(limit("500m"), procsIs("2")), go126, "K004/info", "would follow the limit"},
	{"pinned in a custom resource", custom(build(limit("2"), procsIs("2"))), Known{}, "", ""},
	{"exclusive CPUs by a reference", build(limit("2"), mem("1g", "1g"), ref("GOMAXPROCS", "limits.cpu", "1")), Known{}, "K016/info", ""},
	{"exclusive CPUs by a reference, Go 1.24", build(limit("2"), mem("1g", "1g"), ref("GOMAXPROCS", "limits.cpu", "1")), go124, "K016/info", ""},
	{"exclusive CPUs by a reference, Go 1.26", build(limit("2"), mem("1g", "1g"), ref("GOMAXPROCS", "limits.cpu", "1")), go126, "K012/info K016/info", ""},
	{"pinned, Go 1.26", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1")), go126, "K004/info", "would follow the limit"},
	{"pinned, Go 1.24", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1")), go124, "", ""},
	{"pinned, go line 1.24", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1")), oldLine, "", ""},
	{"pinned, ours", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1")), withOurs, "K004/info", ""},
	{"pinned, GODEBUG switches off", build(limit("2"), procsIs("2"), env("GODEBUG", "containermaxprocs=0")), go126, "", ""},
	{"pinned without a limit", build(procsIs("4")), Known{}, "", ""},
	{"pinned, limit not known", build(limit("?"), procsIs("4")), Known{}, "", ""},
	{"pinned in a job", kindIs("CronJob", build(limit("2"), procsIs("2"))), Known{}, "", ""},
	{"pinned in an init container", build(role(workload.Init), limit("2"), procsIs("2")), Known{}, "", ""},
	{"pinned in a sidecar", build(role(workload.Sidecar), limit("2"), procsIs("2")), Known{}, "K004/info", ""},
	{"pinned, VPA in place", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), vpa("InPlaceOrRecreate")), Known{}, "K004/warning", "in place"},
	{"pinned, VPA in place, Go 1.24", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), vpa("InPlace")), go124, "K004/warning", "RestartContainer"},
	{"pinned, VPA in place, Go 1.26", build(limit("2"), procsIs("2"), vpa("InPlace")), go126, "K004/warning", "take GOMAXPROCS out: "},
	{"pinned, VPA in place, restarts", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), resize(workload.ResizeRestart), vpa("InPlace")), Known{}, "", ""},
	{"literal, VPA in place, restarts", build(limit("2"), procsIs("2"), resize(workload.ResizeRestart), vpa("InPlace")), Known{}, "K004/warning", ""},
	{"pinned, VPA off", build(limit("2"), procsIs("2"), vpa("Off")), Known{}, "K004/info", ""},
	{"pinned, VPA not for it", build(limit("2"), procsIs("2"), vpa("InPlace", func(v *workload.VPA) { v.Off = map[string]bool{"app": true} })), Known{}, "K004/info", ""},
	{"pinned, VPA requests only", build(limit("2"), procsIs("2"), vpa("InPlace", func(v *workload.VPA) { v.LimitsToo = false })), Known{}, "K004/info", ""},
	{"literal, VPA recreates", build(limit("2"), procsIs("2"), vpa("Recreate")), Known{}, "K004/warning", ""},
	{"from the limit, VPA recreates", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), vpa("Recreate")), Known{}, "", ""},
	{"from the limit, VPA boost", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), vpa("Off", func(v *workload.VPA) { v.Boost = true })), Known{}, "K004/warning", "for life"},
	{"from the limit, boost", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), around(func(a *workload.Around) { a.Boost = "b" })), Known{}, "K004/warning", "StartupCPUBoost b"},
	{"literal, boost", build(limit("2"), procsIs("2"), around(func(a *workload.Around) { a.Boost = "b" })), Known{}, "", ""},
	{"pinned, NotRequired", build(limit("2"), procsIs("2"), resize(workload.ResizeInPlace)), Known{}, "K004/warning", "NotRequired"},
	{"pinned, NotRequired, live", onCluster(build(limit("2"), procsIs("2"), resize(workload.ResizeInPlace))), Known{}, "K004/info", ""},

	// K005
	{"at twice the limit", build(limit("2"), procsIs("4")), go124, "K005/info", "set it to 2"},
	{"below twice the limit", build(limit("2"), procsIs("3")), go124, "", ""},
	{"2 for half a CPU is Go's own", build(limit("500m"), procsIs("2")), go124, "", ""},
	{"3 for half a CPU", build(limit("500m"), procsIs("3")), go124, "K005/info", ""},
	{"4 for 1 CPU", build(limit("1"), procsIs("4")), go124, "K005/info", ""},
	{"5 for 1 CPU", build(limit("1"), procsIs("5")), go124, "K005/warning", ""},
	{"7 for 2 CPUs", build(limit("2"), procsIs("7")), go124, "K005/info", ""},
	{"8 for 2 CPUs", build(limit("2"), procsIs("8")), go124, "K005/warning", "in 25 ms"},
	{"8 for 0.6 CPUs", build(limit("600m"), procsIs("8")), Known{}, "K005/warning", "in 7.5 ms"},
	{"8 without a limit", build(procsIs("8")), go124, "", ""},
	{"8, limit not known", build(limit("?"), procsIs("8")), go124, "", ""},
	{"8 under a pod's limit", build(pod("1"), procsIs("8")), go124, "K005/warning", "the pod's limit"},
	{"8 in a JVM", build(limit("1"), command("/usr/bin/java", "-jar", "x.jar"), procsIs("8")), Known{}, "", ""},
	{"8 in the image", build(limit("1")), inImage("8"), "K005/warning", "the image sets"},
	{"the manifest's over the image's", build(limit("1"), procsIs("1")), inImage("8"), "K004/info", ""},

	// K006
	{"500m", build(limit("500m"), procsIs("500m")), Known{}, "K006/warning", "which Go ignores"},
	{"2.5", build(limit("2500m"), procsIs("2.5")), Known{}, "K006/warning", "takes 3 here"},
	{"a plus sign", build(procsIs("+4")), go124, "K006/warning", ""},
	{"auto", build(procsIs("auto")), Known{}, "K006/info", ""},
	{"nothing", build(procsIs("")), go126, "", ""},
	{"0", build(procsIs("0")), go126, "", ""},
	{"nothing, automaxprocs", build(limit("1"), procsIs("")), withAuto, "K006/warning", "automaxprocs, which"},
	{"too large a number", build(procsIs("3000000000")), Known{}, "K006/warning", ""},
	{"request that is not there", build(limit("2"), request("0"), ref("GOMAXPROCS", "requests.cpu", "1")), Known{}, "K006/info", "no CPU request"},
	{"request that a LimitRange gives", build(around(func(a *workload.Around) { a.DefaultRequest = cpus("1") }), ref("GOMAXPROCS", "requests.cpu", "1")), Known{}, "", ""},
	{"500m in a JVM", build(image("eclipse-temurin:25"), procsIs("500m")), Known{}, "", ""},
	{"not known", build(limit("1"), from(workload.ConfigMap, "ConfigMap a, key b", "?")), Known{}, "", ""},

	// K007
	{"1 for 1.5 CPUs", build(limit("1500m"), procsIs("1")), Known{}, "K007/warning", "set it to 2"},
	{"1 for 1 CPU", build(limit("1"), procsIs("1")), go124, "", ""},
	{"1 for 1.1 CPUs", build(limit("1100m"), procsIs("1")), go124, "K007/warning", ""},
	{"3 for 4 CPUs", build(limit("4"), procsIs("3")), go124, "K007/info", "1 CPU of the limit"},
	{"3 for 3.9 CPUs", build(limit("3900m"), procsIs("3")), go124, "", ""},
	{"2 for 4 CPUs, VPA", build(limit("4"), procsIs("2"), vpa("Off")), go124, "K007/warning", "which can't come near"},
	{"from a request", build(limit("4"), request("500m"), ref("GOMAXPROCS", "requests.cpu", "1")), go124, "K007/warning", ""},
	{"1 for 4 CPUs in an init container", build(role(workload.Init), limit("4"), procsIs("1")), Known{}, "", ""},
	{"1 for 4 CPUs in node", build(image("node:24"), limit("4"), procsIs("1")), Known{}, "", ""},
	{"1, limit not known", build(limit("?"), procsIs("1")), Known{}, "", ""},

	// K008
	{"container off", build(limit("2"), env("GODEBUG", "http2client=0,containermaxprocs=0")), Known{}, "K008/warning", "would take 2"},
	{"container off, Go 1.26 on a node", build(limit("2"), env("GODEBUG", "containermaxprocs=0")), on(go126, 32), "K008/warning", "32 on a node"},
	{"container off, Go 1.24", build(limit("2"), env("GODEBUG", "containermaxprocs=0")), go124, "K013/warning", ""},
	{"container off, ours", build(limit("2"), env("GODEBUG", "containermaxprocs=0")), withOurs, "", ""},
	{"container off, go line 1.24", build(limit("2"), env("GODEBUG", "containermaxprocs=0")), oldLine, "K013/warning", ""},
	{"container on", build(limit("2"), env("GODEBUG", "containermaxprocs=1")), Known{}, "", ""},
	{"container off without a limit", build(env("GODEBUG", "containermaxprocs=0")), Known{}, "", ""},
	{"container off, GOMAXPROCS set", build(limit("2"), env("GODEBUG", "containermaxprocs=0"), procsIs("2")), go124, "", ""},
	{"container off, limit not known", build(limit("?"), env("GODEBUG", "containermaxprocs=0")), Known{}, "", ""},
	{"updates off", build(limit("2"), env("GODEBUG", "updatemaxprocs=0")), Known{}, "K008/info", ""},
	{"updates off, VPA in place", build(limit("2"), env("GODEBUG", "updatemaxprocs=0"), vpa("InPlace")), Known{}, "K008/warning", ""},
	{"updates off, VPA recreates", build(limit("2"), env("GODEBUG", "updatemaxprocs=0"), vpa("Recreate")), Known{}, "K008/info", ""},

	// K009
	{"two Go containers", build(pod("2"), env("GOGC", "50"), container("b"), env("GOGC", "50")), Known{}, "K009/info", "2 containers share the pod's limit of 2 CPUs, and each"},
	{"two containers", build(pod("2"), container("b")), Known{}, "K009/info", "if they are Go programs"},
	{"five Go containers", build(pod("2"), container("b"), container("c"), container("d"), container("e")), go126, "K009/warning", "together 10 for 2 CPUs"},
	{"one container", build(pod("2")), go126, "", ""},
	{"one and a proxy", build(pod("2"), container("b"), image("envoyproxy/envoy:v1.35")), Known{}, "", ""},
	{"one and an init container", build(pod("2"), container("b"), role(workload.Init)), go126, "", ""},
	{"one has a limit", build(pod("2"), container("b"), limit("1")), go126, "", ""},
	{"each has its share", build(pod("2"), procsIs("1"), container("b"), procsIs("1")), go124, "K007/warning K007/warning", ""},
	{"pod's limit not known", build(pod("?"), container("b")), go126, "", ""},
	{"no pod's limit", build(container("b")), go126, "", ""},

	// K010
	{"request only", build(request("500m"), env("GOMEMLIMIT", "1GiB")), Known{}, "K010/info", "container app requests 0.5 CPUs"},
	{"request only, Go", build(request("500m")), go126, "K010/info", ""},
	{"request only, who knows", build(request("500m")), Known{}, "", ""},
	{"request only, two", build(request("500m"), container("b"), request("1")), go126, "K010/info", "in app, b"},
	{"request only, small node", build(request("1")), on(go126, 4), "", ""},
	{"request only, large node", build(request("1")), on(go126, 4, 16), "K010/info", ""},
	{"no request", build(), go126, "", ""},
	{"request and a number", build(request("500m"), procsIs("2")), go126, "", ""},
	{"request and limit", build(request("500m"), limit("2")), go126, "", ""},
	{"request in an init container", build(role(workload.Init), request("500m")), go126, "", ""},
	{"request, and a quota on limits", build(request("500m"), around(func(a *workload.Around) { a.Quota = true })), go126, "", ""},
	{"request not known", build(request("?")), go126, "", ""},
	{"request, GOMAXPROCS perhaps", build(request("500m"), envFrom("tuning")), go126, "", ""},

	// K011
	{"another container's limit", build(limit("8"), container("b"), limit("1"), ref("GOMAXPROCS", "app/limits.cpu", "1")), Known{}, "K011/warning", "from container app"},
	{"another container's limit, near", build(limit("3"), container("b"), limit("2"), ref("GOMAXPROCS", "app/limits.cpu", "1")), Known{}, "K011/info", ""},
	{"another container's limit, the same", build(limit("2"), container("b"), limit("2"), ref("GOMAXPROCS", "app/limits.cpu", "1")), Known{}, "", ""},
	{"its own name", build(limit("2"), ref("GOMAXPROCS", "app/limits.cpu", "1")), go124, "", ""},
	{"no such container", build(limit("2"), ref("GOMAXPROCS", "ap/limits.cpu", "1")), Known{}, "K011/warning", "CreateContainerConfigError"},
	{"a ConfigMap", build(limit("2"), from(workload.ConfigMap, "ConfigMap tuning, key procs", "2")), Known{}, "K011/info", "from ConfigMap tuning, key procs"},
	{"a ConfigMap, far above", build(limit("2"), from(workload.FromWhole, "ConfigMap tuning", "16")), Known{}, "K005/warning", ""},
	{"a ConfigMap without a limit", build(from(workload.ConfigMap, "ConfigMap tuning, key procs", "2")), Known{}, "", ""},
	{"nproc", build(limit("2"), command("sh", "-c", "GOMAXPROCS=$(nproc) exec app")), Known{}, "K011/warning", "nproc knows no CPU limit"},
	{"nproc without a limit", build(command("sh", "-c", "GOMAXPROCS=$(nproc) exec app")), Known{}, "", ""},
	{"a number in the command", build(limit("2"), command("sh", "-c", "export GOMAXPROCS=2; exec app"), procsIs("64")), Known{}, "K011/info", ""},
	{"an argument of that name", build(limit("2"), command("app", "--set-GOMAXPROCS=2")), Known{}, "", ""},

	// K017
	{"advised, unknown program", build(limit("2"), advice("KRR", "2500m", false)), Known{}, "K017/info", "KRR recommends a limit of 2.5 CPUs: a Go program that follows its limit would take 3, and takes 2 now"},
	{"advised, Go 1.26", build(limit("2"), advice("KRR", "2500m", false)), go126, "K017/info", "the program would take 3, and takes 2 now"},
	{"advised, Go 1.24", build(limit("2"), advice("KRR", "2500m", false)), go124, "K013/warning", ""},
	{"advised, the same number", build(limit("2"), advice("KRR", "1500m", false)), go126, "", ""},
	{"advised, automaxprocs differs only", build(limit("2"), advice("KRR", "1500m", false)), Known{}, "K017/info", "automaxprocs: 1, and 2 now"},
	{"advised none", build(limit("2"), advice("KRR", "", false)), go126, "K017/info", "would take the node's CPUs, and takes 2 now"},
	{"advised none, by reference", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), advice("KRR", "", false)), go124, "K017/warning", "KRR recommends no CPU limit: GOMAXPROCS, from limits.cpu, would be the node's CPUs"},
	{"advised none where none is", build(request("1"), advice("KRR", "", false)), go124, "K010/info", ""},
	{"advised none, pod's stays", build(pod("2"), limit("2"), advice("KRR", "", false)), go126, "", ""},
	{"advised, by reference", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "1"), advice("KRR", "2500m", false)), go124, "K017/info", "GOMAXPROCS would be 3, and is 2 now"},
	{"advised, too many", build(limit("8"), procsIs("8"), advice("VerticalPodAutoscaler api", "2", true)), go124, "K017/warning", "sets that itself"},
	{"advised, too few", build(limit("2"), procsIs("2"), advice("KRR", "4", false)), go124, "K017/warning", "GOMAXPROCS would be 2 under it"},
	{"advised, wrong already", build(limit("1"), procsIs("8"), advice("KRR", "2", false)), go124, "K005/warning", ""},
	{"advised, fits", build(limit("2"), procsIs("2"), advice("KRR", "1500m", false)), go124, "", ""},
	{"advised, from the request", build(limit("4"), request("4"), ref("GOMAXPROCS", "requests.cpu", "1"), advisedWith("1", "4")), go124, "K017/warning", "GOMAXPROCS would be 1 under it"},
	{"advised twice the same", build(limit("2"), advice("KRR", "2500m", false), advice("KRR", "2500m", false)), go126, "K017/info", ""},
	{"advised, limit not known", build(limit("?"), advice("KRR", "2500m", false)), go126, "", ""},
	{"advised, GOMAXPROCS perhaps", build(limit("2"), envFrom("tuning"), advice("KRR", "2500m", false)), go126, "", ""},
	{"advised, redis", build(limit("2"), image("redis"), advice("KRR", "2500m", false)), Known{}, "", ""},
	{"advised, init container", build(role(workload.Init), limit("2"), advice("KRR", "2500m", false)), go126, "", ""},

	// K012
	{"exclusive CPUs", build(limit("2"), mem("1g", "1g"), procsIs("2")), Known{}, "K012/info K016/info", "static CPU manager"},
	{"half a CPU", build(limit("2500m"), mem("1g", "1g"), procsIs("3")), go124, "K016/info", ""},
	{"burstable", build(limit("2"), request("1"), mem("1g", "1g"), procsIs("2")), go124, "K016/info", ""},
	{"burstable by memory", build(limit("2"), mem("1g", "512m"), procsIs("2")), go124, "K016/info", ""},
	{"memory not given", build(limit("2"), procsIs("2")), go124, "", ""},
	{"another is burstable", build(limit("2"), mem("1g", "1g"), procsIs("2"), container("b"), limit("1")), Known{}, "K004/info K016/info", ""},

	// K014
	{"GOGC=400", build(mem("256m", "256m"), env("GOGC", "400")), Known{}, "K014/warning", "set GOMEMLIMIT to 230MiB"},
	{"GOGC=off", build(mem("256m", "256m"), env("GOGC", "off")), Known{}, "K014/warning", "GOGC is off"},
	{"GOGC=400 in an image", build(mem("256m", "256m"), image("redis:8"), env("GOGC", "400")), Known{}, "", ""},
	{"GOGC=400, no limit", build(env("GOGC", "400")), Known{}, "", ""},
	{"GOGC=400, limit not known", build(mem("?", "?"), env("GOGC", "400")), Known{}, "", ""},
	{"GOGC=400 and GOMEMLIMIT", build(mem("256m", "256m"), env("GOGC", "400"), env("GOMEMLIMIT", "230MiB")), Known{}, "", ""},
	{"GOGC=400 and GOMEMLIMIT=off", build(mem("256m", "256m"), env("GOGC", "400"), env("GOMEMLIMIT", "off")), Known{}, "", ""},
	{"GOGC=400, the command sets it", build(mem("256m", "256m"), env("GOGC", "400"), command("sh", "-c", "GOMEMLIMIT=1GiB app")), Known{}, "", ""},
	{"GOGC=400, VPA", build(mem("256m", "256m"), env("GOGC", "400"), vpa("InPlace")), Known{}, "K014/warning", "follows the limit"},
	{"GOGC=400 in 16 MiB", build(mem("16m", "16m"), env("GOGC", "400")), Known{}, "K014/warning", "give it more memory"},
	{"GOGC=100", build(mem("256m", "256m"), env("GOGC", "100")), Known{}, "K016/info", ""},
	{"GOGC is no number", build(mem("256m", "256m"), env("GOGC", "4e2")), Known{}, "K016/info", ""},

	// K015
	{"GOMEMLIMIT is the limit", build(mem("256m", "256m"), env("GOMEMLIMIT", "256MiB")), Known{}, "K015/warning", "under a memory limit of 256m"},
	{"GOMEMLIMIT above the limit", build(mem("256m", "256m"), env("GOMEMLIMIT", "1GiB")), Known{}, "K015/warning", "above the limit"},
	{"GOMEMLIMIT below the limit", build(mem("256m", "256m"), env("GOMEMLIMIT", "240MiB")), Known{}, "", ""},
	{"GOMEMLIMIT of a request", build(mem("256m", "128m"), ref("GOMEMLIMIT", "requests.memory", "1")), Known{}, "", ""},
	{"GOMEMLIMIT of another container", build(mem("256m", "256m"), ref("GOMEMLIMIT", "other/limits.memory", "1")), Known{}, "", ""},
	{"GOMEMLIMIT, limit not known", build(mem("?", "?"), env("GOMEMLIMIT", "256MiB")), Known{}, "", ""},
	{"GOMEMLIMIT not known", build(mem("256m", "256m"), variable(workload.Variable{Name: "GOMEMLIMIT", Form: workload.Secret, Text: "Secret s", State: workload.Unknown})), Known{}, "", ""},
	{"GOMEMLIMIT is the limit, not Go", build(mem("256m", "256m"), env("GOMEMLIMIT", "256MiB")), notGo, "", ""},

	// K016
	{"a memory limit, Go", build(mem("256m", "256m")), go126, "K016/info", "twice of what is alive"},
	{"a memory limit, ours", build(mem("256m", "256m")), withOurs, "", ""},
	{"a memory limit by a variable of its own", build(mem("256m", "256m"), of(func(c *workload.Container) { c.MemoryVariable = true })), go126, "", ""},
	{"a memory limit, perhaps not Go", build(mem("256m", "256m")), Known{}, "", ""},
	{"a memory limit in an init container", build(mem("256m", "256m"), role(workload.Init)), go126, "", ""},

	// K013
	{"Go 1.24 under a limit", build(limit("2")), go124, "K013/warning", "it reads no cgroup"},
	{"Go 1.24 on a large node", build(limit("2")), on(go124, 4, 64), "K013/warning", "64 on a node of 64 CPUs, where 2 would be right"},
	{"Go 1.24 on a node a little larger", build(limit("2")), on(go124, 4), "K013/info", ""},
	{"Go 1.24 on a small node", build(limit("2")), on(go124, 2), "", ""},
	{"go line 1.24", build(limit("2")), oldLine, "K013/warning", ""},
	{"Go 1.24, GODEBUG turns it on in 1.26", build(limit("2"), env("GODEBUG", "containermaxprocs=1")), oldLine, "", ""},
	{"Go 1.25", build(limit("2")), go125, "", ""},
	{"Go 1.26", build(limit("2")), go126, "", ""},
	{"automaxprocs", build(limit("2500m")), withAuto, "", ""},
	{"ours", build(limit("2500m")), withOurs, "", ""},
	{"Go 1.24, no limit", build(), go124, "", ""},
	{"Go 1.24, limit not known", build(limit("?")), go124, "", ""},
	{"Go 1.24, GOMAXPROCS perhaps", build(limit("2"), envFrom("tuning")), go124, "", ""},
	{"Go 1.24 in an init container", build(limit("2"), role(workload.Init)), go124, "K013/info", ""},

	{"Go 1.24, GOMAXPROCS empty", build(limit("2"), procsIs("")), go124, "K013/warning", ""},
	{"Go 1.24, GOMAXPROCS 0", build(limit("2"), procsIs("0")), go124, "K013/warning", ""},
	{"Go 1.24, a number", build(limit("2"), procsIs("2")), go124, "", ""},
	{"literal, VPA at the start", build(limit("2"), procsIs("2"), vpa("Initial")), Known{}, "K004/warning", ""},
	{"literal, VPA auto", build(limit("2"), procsIs("2"), vpa("Auto")), Known{}, "K004/warning", ""},
	{"exclusive CPUs in an init container", build(limit("2"), mem("1g", "1g"), procsIs("2"), role(workload.Init)), Known{}, "", ""},
	{"exclusive CPUs in nginx", build(limit("2"), mem("1g", "1g"), procsIs("2"), image("nginx")), Known{}, "", ""},
	{"a Secret", build(limit("2"), from(workload.Secret, "Secret tuning, key procs", "2")), Known{}, "K011/info", ""},
	{"updates off in an init container", build(limit("2"), env("GODEBUG", "containermaxprocs=0"), role(workload.Init)), Known{}, "", ""},

	// Several rules about one variable.
	{"K001 hides K002 to K004", build(limit("500m"), ref("GOMAXPROCS", "limits.cpu", "1m"), vpa("InPlace")), go126, "K001/critical", ""},
	{"K003 hides K002", build(ref("GOMAXPROCS", "limits.cpu", ""), vpa("InPlace")), Known{}, "K003/warning", ""},
	{"K004 that costs hides K002", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", ""), vpa("InPlace")), Known{}, "K004/warning", ""},
	{"K004 that costs hides K005 that does not", build(limit("2"), procsIs("4"), vpa("InPlace")), Known{}, "K004/warning", ""},
	{"K005 that costs hides K004 that costs", build(limit("1"), procsIs("8"), vpa("InPlace")), Known{}, "K005/warning", ""},
	{"two variables, two findings", build(limit("1"), ref("GOMAXPROCS", "limits.cpu", "1m"), mem("1g", "1g"), ref("GOMEMLIMIT", "limits.memory", "1Mi")), Known{}, "K001/critical K001/critical", ""},
	{"two containers, two findings", build(limit("1"), procsIs("x"), container("b"), procsIs("x")), Known{}, "K006/info K006/info", ""},

	// Comments.
	{"taken back", build(limit("1"), procsIs("8"), ignore(110, 112, "k005"), ignore(110, 110, "K004")), Known{}, "", ""},
	{"what it hid shows", build(limit("1"), procsIs("8"), ignore(110, 112, "K005")), Known{}, "K004/info", ""},
	{"all taken back", build(limit("1"), procsIs("8"), ignore(110, 112)), Known{}, "", ""},
	{"on other lines", build(limit("1"), procsIs("8"), ignore(90, 109, "K005")), go124, "K005/warning K000/info", "K005 reports nothing"},
	{"nothing there", build(limit("1"), ignore(100, 112, "K005", "K001")), Known{}, "K000/info K000/info", ""},
	{"nothing at all there", build(limit("1"), ignore(100, 112)), Known{}, "K000/info", "no rule reports"},
	{"no such rule", build(limit("1"), procsIs("8"), ignore(100, 112, "K099", "K005")), go124, "K000/info", "there is no rule K099"},
}

func onCluster(w *workload.Workload) *workload.Workload {
	c := last(w)
	c.At.File, c.ResizeAt.File = "", ""
	for i := range c.Env {
		c.Env[i].At.File = ""
	}
	return w
}

func kindIs(kind string, w *workload.Workload) *workload.Workload {
	w.Kind = kind
	return w
}

func envFrom(name string) part {
	return of(func(c *workload.Container) { c.EnvFrom = []workload.Source{{Kind: "ConfigMap", Name: name}} })
}

func inImage(procs string) Known {
	b := binary.Binary{Env: []binary.Variable{{Name: "GOMAXPROCS", Value: procs}}}
	return Known{Binaries: set(b)}
}

func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			var all strings.Builder
			for _, f := range findings(t, c.w, c.known) {
				got = append(got, f.Rule+"/"+f.Severity.String())
				seen[f.Rule] = true
				fmt.Fprintln(&all, f.At, f.Summary, f.Evidence, f.Fix)
				sound(t, f)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %q, want %q\n%s", text, c.want, &all)
			}
			if !strings.Contains(all.String(), c.say) {
				t.Errorf("%q is not in\n%s", c.say, &all)
			}
		})
	}
	for _, r := range Rules() {
		if !seen[r.ID] {
			t.Errorf("no case is for %s", r.ID)
		}
	}
}

// sound checks what holds for every finding.
func sound(t *testing.T, f Finding) {
	t.Helper()
	if f.Summary == "" || f.Fix == "" || f.Verdict == "" || f.Workload == "" || f.Rule != unused && len(f.Evidence) == 0 {
		t.Errorf("incomplete: %+v", f)
	}
	changing := 0
	if f.Container == "" && f.Variable != "" {
		f.Container = "without a name"
	}
	for _, r := range f.Remedies {
		if r.Why == "" || r.Changes() && (f.Container == "" || r.Variable == "") {
			t.Errorf("incomplete: %+v", r)
		}
		if r.Changes() {
			changing++
		}
	}
	if len(f.Remedies) == 0 && f.Rule != unused || changing > 1 {
		t.Errorf("remedies %+v", f.Remedies)
	}
	for _, text := range append([]string{f.Summary, f.Fix}, f.Evidence...) {
		if strings.Contains(text, "%!") || strings.Contains(text, "\n") || text == "" {
			t.Errorf("bad text %q", text)
		}
	}
}

// A finding is at its variable, or at what it is about.
func TestPositions(t *testing.T) {
	for _, c := range []struct {
		w     *workload.Workload
		known Known
		want  int
	}{
		{build(limit("1"), env("A", "b"), procsIs("8")), Known{}, 111},
		{build(limit("1"), container("b"), limit("1"), procsIs("8")), Known{}, 210},
		{build(limit("1")), inImage("8"), 100},
		{build(limit("1"), env("GODEBUG", "containermaxprocs=0")), Known{}, 110},
		{build(pod("2"), container("b")), Known{}, 50},
		{build(limit("1")), go124, 100},
	} {
		got := findings(t, c.w, c.known)
		if len(got) != 1 || got[0].At.Line != c.want {
			t.Errorf("got %+v, want one at line %d", got, c.want)
		}
	}
}

// Each rule has its page and its row in the table of rules, and each page its rule.
func TestPages(t *testing.T) {
	const dir = "../../../../../docs/rules/"
	var pages []string
	rows := map[string]string{} // by page
	for _, r := range Rules() {
		name := strings.ToLower(r.ID) + ".md"
		pages = append(pages, dir+name)
		rows[dir+name] = fmt.Sprintf("| [%s](%s) | %s | %s |\n", r.ID, name, r.Verdict, r.Means)
		page, err := os.ReadFile(dir + name)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := "# " + r.ID + ": " + r.Verdict + "\n"; !strings.HasPrefix(string(page), want) {
			t.Errorf("%s does not begin with %q", name, want)
		}
	}
	slices.Sort(pages)
	found, err := filepath.Glob(dir + "k[0-9]*.md")
	if err != nil || !slices.Equal(found, pages) {
		t.Errorf("pages %q, rules %q, %v", found, pages, err)
	}
	var table strings.Builder
	for _, page := range append(pages[1:], pages[0]) { // K000 comes last
		table.WriteString(rows[page])
	}
	fixture.Section(t, *update, dir+"README.md", "| rule | verdict | what it means |\n| --- | --- | --- |\n", table.String())
}

// No matter what a manifest says, rules neither panic nor say different things at different times, and where no amount is
// known they find nothing but comments.
func TestRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	known := []Known{{}, go124, go125, go126, oldLine, withAuto, withOurs, notGo, on(go124, 1, 64), on(Known{}, 0, -1), inImage("x")}
	found := 0
	for range 20_000 {
		open := random.IntN(4) == 0
		w := anything(random, open)
		k := known[random.IntN(len(known)-1)]
		if !open && random.IntN(9) == 0 {
			k = known[len(known)-1] // what an image says is known, regardless of what the manifest leaves open
		}
		got := findings(t, w, k)
		found += len(got)
		if again := findings(t, w, k); !reflect.DeepEqual(got, again) {
			t.Fatalf("%+v\nthen %+v", got, again)
		}
		for _, f := range got {
			sound(t, f)
			if open && f.Rule != unused {
				t.Fatalf("nothing is known, and yet %+v\nof %+v", f, w)
			}
		}
	}
	if found < 10_000 {
		t.Errorf("%d findings in all: the random workloads are too tame", found)
	}
}

func anything(random *rand.Rand, open bool) *workload.Workload {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	amount := func() workload.Amount {
		if open {
			return cpus("?")
		}
		switch text := pick("", "?", "0", "1m", "500m", "1", "1500m", "2", "64", "-1", "nan", "1e300"); text {
		case "":
			return workload.Amount{}
		case "-1":
			return workload.Amount{State: workload.Known, Value: -1}
		case "nan":
			zero := 0.0
			return workload.Amount{State: workload.Known, Value: zero / zero}
		case "1e300":
			return workload.Amount{State: workload.Known, Value: 1e300}
		default:
			return cpus(text)
		}
	}
	w := &workload.Workload{Kind: pick("", "Pod", "Job"), Name: pick("", "a"), Namespace: pick("", "b")}
	w.Pod.Limit, w.Around.Default, w.Around.LimitMax, w.Around.DefaultRequest = amount(), amount(), amount(), amount()
	if random.IntN(3) > 0 && !open {
		w.Pod.Limit, w.Around = workload.Amount{}, workload.Around{}
	}
	if random.IntN(4) == 0 {
		w.Around.VPA = &workload.VPA{Mode: pick("", "Off", "InPlace", "Auto"), LimitsToo: true, Boost: random.IntN(2) == 0}
	}
	w.Around.Boost, w.Around.Quota = pick("", "", "b"), random.IntN(9) == 0
	for range random.IntN(4) {
		c := workload.Container{Name: pick("", "a", "b"), Image: pick("", "a", "nginx", ":@/"), Role: workload.Role(pick("container", "init container", "sidecar", ""))}
		c.Limit, c.Request, c.Memory, c.MemoryRequest = amount(), amount(), amount(), amount()
		c.Resize = workload.Resize(pick("", "NotRequired", "RestartContainer", "x"))
		c.At, c.ResizeAt = at(random.IntN(9)), at(1)
		if random.IntN(4) == 0 {
			c.Command = []string{pick("", "sh", "java"), pick("", "GOMAXPROCS=$(nproc) x", "GOMAXPROCS=")}
		}
		if random.IntN(5) == 0 {
			c.EnvFrom = []workload.Source{{Kind: "ConfigMap", Name: "a", Prefix: pick("", "GO"), Known: random.IntN(2) == 0}}
		}
		for range random.IntN(4) {
			v := workload.Variable{
				Name: pick("GOMAXPROCS", "GOMAXPROCS", "GODEBUG", "GOMEMLIMIT", "GOGC", ""), At: at(random.IntN(9)),
				Form:  workload.Form(pick("literal", "resourceFieldRef", "fieldRef", "configMapKeyRef", "secretKeyRef", "envFrom", "")),
				Value: pick("", "0", "1", "2", "8", "-1", "2.5", "x", "containermaxprocs=0", "updatemaxprocs=0,x", "99999999999"),
				State: workload.State(random.IntN(3)), Resource: pick("limits.cpu", "limits.cpu", "requests.cpu", "limits.memory", "x", ""),
				Container: pick("", "", "a", "z"), Divisor: pick("", "0", "1", "1m", "x", "-1", "1Mi", "1e-300"),
			}
			if open {
				v.State = workload.Unknown
			}
			c.Env = append(c.Env, v)
		}
		w.Pod.Containers = append(w.Pod.Containers, c)
	}
	for range random.IntN(2) {
		w.Ignore = append(w.Ignore, workload.Ignore{Rules: []string{pick("K001", "", "k009", "x")}, At: at(1), From: random.IntN(9), To: random.IntN(9)})
	}
	return w
}
