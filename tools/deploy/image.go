package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// checkImage reads the Dockerfile as BuildKit does, and wants an image with nothing in
// it but the binary, which does not run as root and asks itself how it is.
func checkImage(root string) (string, error) {
	file, err := os.Open(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		return "", err
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return "", err
	}
	var faults all
	if len(stages) != 2 || stages[len(stages)-1].BaseName != "scratch" {
		return "", fmt.Errorf("%d stages, of which the last should be from scratch", len(stages))
	}
	build, image := stages[0], stages[1]
	static := false
	for _, c := range build.Commands {
		switch c := c.(type) {
		case *instructions.RunCommand:
			static = static || strings.Contains(strings.Join(c.CmdLine, " "), "CGO_ENABLED=0 go build")
		case *instructions.CopyCommand:
			for _, source := range c.SourcePaths {
				_, err := os.Stat(filepath.Join(root, source))
				faults.add("COPY", err)
			}
		}
	}
	if !static {
		faults.addf("the binary is not built without cgo: it would find no C library in the image")
	}
	var user, health, entry string
	for _, c := range image.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			if c.From != build.Name {
				faults.addf("COPY --from=%s, and there is only the stage %s", c.From, build.Name)
			}
		case *instructions.UserCommand:
			user = c.User
		case *instructions.HealthCheckCommand:
			health = strings.Join(c.Health.Test, " ")
		case *instructions.EntrypointCommand:
			entry = strings.Join(c.CmdLine, " ")
		case *instructions.RunCommand:
			faults.addf("there is no shell in the image to RUN with")
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") || health != "CMD impart ready" || entry != "impart" {
		faults.addf("user %q, health check %q, entry point %q", user, health, entry)
	}
	return fmt.Sprintf("%d stages, user %s, health check by itself", len(stages), user), faults.err()
}
