package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"charm.land/fang/v2"
	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// run is the whole program: it carries out args and gives the exit code.
func run(ctx context.Context, args []string, env streams) int {
	root, started := newRoot(env)
	root.SetArgs(args)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	err := fang.Execute(ctx, root,
		fang.WithVersion(buildInfo().String()),
		fang.WithErrorHandler(printError))
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage), !*started:
		// Before a command has started, only its flags and arguments can be wrong.
		return exitUsage
	default:
		return exitFailed
	}
}

// errSilent is a failure that the command has told already.
var errSilent = errors.New("failed")

// printError writes an error as lines on standard error. fang's own form would
// wrap and capitalise them, and a caret would no longer point anywhere.
func printError(w io.Writer, styles fang.Styles, err error) {
	if errors.Is(err, errSilent) {
		return
	}
	prefix := styles.Program.Name.Render("impart:")
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		if strings.HasPrefix(line, " ") || line == "" {
			fmt.Fprintln(w, line)
			continue
		}
		fmt.Fprintln(w, prefix, line)
	}
}

// The groups of commands in the help.
const (
	groupServer   = "server"
	groupOperator = "operator"
	groupUser     = "user"
	groupOther    = "other"
)

// newRoot makes the tree of commands. started becomes true once flags and
// arguments were found right and a command began its work.
func newRoot(env streams) (root *cobra.Command, started *bool) {
	cobra.EnableCommandSorting = false // the order of the help is ours
	started = new(bool)
	root = &cobra.Command{
		Use:   "impart",
		Short: "Instant messages that arrive: stored before \"sent\", never twice, in order, on every device.",
		Long: "Impart delivers instant messages. A sender that reads \"sent\" can rely on a stored message, a retry is never a second one, " +
			"and what a device lacks is found by the server.\n\n" +
			"Start with `impart serve`, then open the address that it prints.",
		Example: "# a server with two demo users to try, on http://127.0.0.1:8080\nimpart serve\n\n" +
			"# who has message 7 of this conversation?\nimpart trace c-demo 7\n\n" +
			"# is this machine able to keep the promises?\nimpart doctor",
		PersistentPreRun: func(*cobra.Command, []string) { *started = true },
	}
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "server"},
		&cobra.Group{ID: groupOperator, Title: "operating one"},
		&cobra.Group{ID: groupUser, Title: "using one"},
		&cobra.Group{ID: groupOther, Title: "and"},
	)
	root.SetCompletionCommandGroupID(groupOther)
	root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true, RunE: helpFor})
	root.AddCommand(
		grouped(groupServer, serveCommand(env)),
		grouped(groupServer, gatewayCommand(env)),
		grouped(groupServer, logicCommand(env)),
		grouped(groupServer, configCommand(env)),
		grouped(groupServer, doctorCommand(env)),
		grouped(groupServer, readyCommand(env)),
		grouped(groupOperator, adminCommand(env)),
		grouped(groupOperator, traceCommand(env)),
		grouped(groupOperator, benchCommand(env)),
		grouped(groupOperator, labCommand(env)),
		grouped(groupUser, chatCommand(env)),
		grouped(groupOther, versionCommand()),
	)
	makeFamily(root)
	return root, started
}

func grouped(id string, cmd *cobra.Command) *cobra.Command {
	cmd.GroupID = id
	return cmd
}

// makeFamily lets a command that only has subcommands print its help, and
// refuse a name that is none of theirs; cobra alone ignores it.
func makeFamily(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		makeFamily(sub)
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = noSuchCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	message := fmt.Sprintf("there is no command %q", cmd.CommandPath()+" "+args[0])
	if near := suggest(args[0], names); near != "" {
		return fmt.Errorf("%s; did you mean %q?", message, cmd.CommandPath()+" "+near)
	}
	return fmt.Errorf("%s; there are: %s", message, strings.Join(names, ", "))
}

func helpFor(cmd *cobra.Command, args []string) error {
	target, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return usagef("there is no command %q", strings.Join(append([]string{"impart"}, args...), " "))
	}
	return target.Help()
}

// exactArgs demands arguments by their names: exactArgs("CONV", "SEQ").
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(names) == 0 {
			return fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
		}
		return fmt.Errorf("usage: %s %s", cmd.CommandPath(), strings.Join(names, " "))
	}
}
