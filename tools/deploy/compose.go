package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

// checkCompose loads the compose file with each of its environment files, and wants
// every file that is mounted to be there.
func checkCompose(folder string) (string, error) {
	var faults all
	services := 0
	files, err := filepath.Glob(filepath.Join(folder, "*.env"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no environment files: %w", err)
	}
	for _, file := range files {
		about := filepath.Base(file)
		options, err := cli.NewProjectOptions([]string{filepath.Join(folder, "compose.yaml")},
			cli.WithWorkingDirectory(folder), cli.WithEnvFiles(file), cli.WithDotEnv, cli.WithDefaultProfiles())
		if err != nil {
			faults.add(about, err)
			continue
		}
		project, err := options.LoadProject(context.Background())
		if err != nil {
			faults.add(about, err)
			continue
		}
		profile := strings.TrimSuffix(about, ".env")
		if _, err := project.GetService(profile); err != nil {
			faults.addf("%s does not switch on the service %s", about, profile)
		}
		services = len(project.Services)
		for name, service := range project.Services {
			for _, v := range service.Volumes {
				if v.Type == "bind" {
					_, err := os.Stat(v.Source)
					faults.add(about+", "+name, err)
				}
			}
			if service.Build != nil {
				_, err := os.Stat(filepath.Join(service.Build.Context, service.Build.Dockerfile))
				faults.add(about+", "+name, err)
			}
			for variable, value := range service.Environment {
				if value == nil || strings.Contains(*value, "${") {
					faults.addf("%s, %s: %s has no value", about, name, variable)
				}
			}
		}
		faults.add(about, noSpareVariables(file, filepath.Join(folder, "compose.yaml")))
	}
	return fmt.Sprintf("%d environments, %d services each", len(files), services), faults.err()
}

// noSpareVariables wants each variable of an environment file to be used.
func noSpareVariables(envFile, composeFile string) error {
	text, err := os.ReadFile(composeFile)
	if err != nil {
		return err
	}
	env, err := os.ReadFile(envFile)
	if err != nil {
		return err
	}
	var faults all
	lines := bufio.NewScanner(strings.NewReader(string(env)))
	for lines.Scan() {
		name, _, is := strings.Cut(lines.Text(), "=")
		if !is || strings.HasPrefix(name, "#") || name == "COMPOSE_PROFILES" {
			continue
		}
		if !strings.Contains(string(text), "${"+name) {
			faults.addf("nothing uses %s", name)
		}
	}
	return faults.err()
}
