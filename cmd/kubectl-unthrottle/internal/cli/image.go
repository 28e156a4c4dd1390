package cli

import (
	"context"
	"runtime/debug"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
)

// imageVariable is the variable with the image of unthrottle, for clusters with their own registry.
const imageVariable = "UNTHROTTLE_IMAGE"

// imageUsage says which image it is without the flag.
const imageUsage = "(" + imageVariable + ", or the one beside the installed agents' image, or that of this release)"

// ourImage is the image of unthrottle that pods get, and where its name is from: --image, the environment, the installation whose
// agents are in a namespace, or the release. client is nil where no cluster is asked; namespace is "" where no agents are.
func ourImage(ctx context.Context, given string, env func(string) string, client rest.Interface, namespace string) (image, from string, err error) {
	image, from = given, "--image"
	if image == "" {
		image, from = env(imageVariable), imageVariable
	}
	if image == "" && client != nil && namespace != "" {
		image, from = install.ImageBeside(ctx, client, namespace), "beside that of the agents in namespace "+namespace
	}
	if image == "" {
		return imageOf("unthrottle"), "that of this release", nil
	}
	if err := install.CheckImage(image); err != nil {
		return "", "", hint.Usage("--image registry.example.com/unthrottle:1", "%s: %w", from, err)
	}
	return image, from, nil
}

// imageOf is where a release's image of a command is. What was not built of a release takes the newest.
func imageOf(name string) string {
	tag := "latest"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") && !strings.ContainsAny(info.Main.Version, "-+") {
		tag = info.Main.Version
	}
	return "ghcr.io/unthrottle/" + name + ":" + tag
}
