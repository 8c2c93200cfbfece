package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/api"
)

func adminCommand(env streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Users, devices, conversations, members, tokens and the epoch of a running server",
		Long: "Speaks to the admin API of a running server (--url), with the token that the server was given as IM_ADMIN_TOKEN. " +
			"A server in dev login needs no token on loopback. Every command may be repeated: what is already so stays so.",
		Example: "impart admin conv put c-ab --kind direct --member u-ana --member u-ben\n" +
			"impart admin conv send c-ab 'the server restarts at noon'\n" +
			"impart admin user put u-ben --disable\n" +
			"impart admin token make u-ana --ttl 12h",
	}
	addClient(cmd)
	cmd.AddCommand(userCommand(env), deviceCommand(env), convCommand(env), memberCommand(env), tokenCommand(env), epochCommand(env))
	return cmd
}

func family(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(subs...)
	return cmd
}

// leaf is a command that asks the server once; args are the names of its arguments.
func leaf(env streams, use, short string, args []string, run func(cmd *cobra.Command, c *adminClient, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: strings.Join(append([]string{use}, args...), " "), Short: short, Args: exactArgs(args...),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newClient(cmd, env)
			if err != nil {
				return err
			}
			return run(cmd, c, args)
		},
	}
}

func userCommand(env streams) *cobra.Command {
	var disable, enable bool
	put := leaf(env, "put", "Make a user known, bar or readmit them", []string{"USER"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
		change := api.UserChange{}
		if disable && enable {
			return usagef("--disable and --enable: should be one of the two")
		}
		if disable || enable {
			change.Disabled = &disable
		}
		return showUser(cmd, c, http.MethodPut, change, "users", args[0])
	})
	put.Flags().BoolVar(&disable, "disable", false, "close the user's connections and refuse their tokens")
	put.Flags().BoolVar(&enable, "enable", false, "let the user in again")
	return family("user", "Known users: put, show, revoke",
		put,
		leaf(env, "show", "What is kept of a user", []string{"USER"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
			return showUser(cmd, c, http.MethodGet, nil, "users", args[0])
		}),
		leaf(env, "revoke", "Refuse every token of a user that was made before now", []string{"USER"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
			return showUser(cmd, c, http.MethodPost, nil, "users", args[0], "revoke")
		}),
	)
}

func showUser(cmd *cobra.Command, c *adminClient, method string, body any, path ...string) error {
	var u api.User
	raw, err := c.ask(cmd.Context(), method, adminPath(path...), body, &u)
	if err != nil {
		return err
	}
	return c.show(cmd, raw, func(w io.Writer) error {
		t := newTable(w, "USER", "DISABLED", "TOKENS REFUSED BEFORE")
		t.row(string(u.User), yesNo(u.Disabled), clock(int64(u.Revoked)))
		return t.end()
	})
}

func deviceCommand(env streams) *cobra.Command {
	var user string
	show := leaf(env, "show", "Devices of this id with their cursors", []string{"DEVICE"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
		path := adminPath("devices", args[0])
		if user != "" {
			path += "?" + url.Values{"user": {user}}.Encode()
		}
		var found api.Devices
		raw, err := c.ask(cmd.Context(), http.MethodGet, path, nil, &found)
		if err != nil {
			return err
		}
		return c.show(cmd, raw, func(w io.Writer) error { return printDevices(w, found.Devices) })
	})
	show.Flags().StringVar(&user, "user", "", "only this user's device")
	return family("device", "Known devices: show", show)
}

func printDevices(w io.Writer, devices []api.Device) error {
	for i, d := range devices {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s of %s: install %d, counter %d, last seen %s\n", oneLine(string(d.Device)), oneLine(string(d.User)), d.InstallEpoch, d.N, clock(int64(d.LastSeen)))
		if len(d.Cursors) == 0 {
			continue
		}
		t := newTable(w, "CONVERSATION", "START", "DELIVERED", "EPOCH", "LAST ACK")
		for _, cur := range d.Cursors {
			t.row(string(cur.Conv), fmt.Sprint(cur.Start), fmt.Sprint(cur.Delivered), fmt.Sprint(cur.Epoch), clock(int64(cur.Updated)))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	return nil
}

func convCommand(env streams) *cobra.Command {
	return family("conv", "Conversations: put, show, send",
		convPutCommand(env),
		leaf(env, "show", "A conversation and its members", []string{"CONV"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
			return showConv(cmd, c, http.MethodGet, nil, "conversations", args[0])
		}),
		convSendCommand(env),
	)
}

func convPutCommand(env streams) *cobra.Command {
	var kind, history string
	var members []string
	put := leaf(env, "put", "Create a conversation, or add members to it", []string{"CONV"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
		if err := oneOf("--kind", kind, string(impart.Direct), string(impart.Group)); err != nil {
			return err
		}
		if err := oneOf("--history", history, "", string(impart.FromJoin), string(impart.HistoryAll)); err != nil {
			return err
		}
		spec := api.ConversationSpec{Kind: impart.ConvKind(kind), History: impart.History(history)}
		for _, member := range members {
			spec.Members = append(spec.Members, api.MemberSpec{User: impart.UserID(member)})
		}
		if err := showConv(cmd, c, http.MethodPut, spec, "conversations", args[0]); err != nil {
			return err
		}
		if len(members) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "note: no --member was named, so nobody was added; whoever has no member can be sent nothing")
		}
		return nil
	})
	put.Flags().StringVar(&kind, "kind", "group", "direct (exactly two members) or group")
	put.Flags().StringVar(&history, "history", "", "what later members see: from_join (default) or all; fixed at creation")
	put.Flags().StringArrayVar(&members, "member", nil, "a user who is a member; once for each")
	put.Example = "impart admin conv put c-ab --kind direct --member u-ana --member u-ben"
	return put
}

// oneOf refuses a flag's value that is none of allowed, where "" is what an
// absent flag has.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	named := slices.DeleteFunc(allowed, func(a string) bool { return a == "" })
	return usagef("%s: %q should be %s", flag, value, strings.Join(named, " or "))
}

func showConv(cmd *cobra.Command, c *adminClient, method string, body any, path ...string) error {
	var conv api.Conversation
	raw, err := c.ask(cmd.Context(), method, adminPath(path...), body, &conv)
	if err != nil {
		return err
	}
	return c.show(cmd, raw, func(w io.Writer) error {
		fmt.Fprintf(w, "%s: %s, history %s, head %d, floor %d\n", oneLine(string(conv.Conv)), conv.Kind, conv.History, conv.Head, conv.Floor)
		t := newTable(w, "USER", "ROLE", "MEMBER", "SEES")
		for _, m := range conv.Members {
			t.row(string(m.User), string(m.Role), yesNo(m.Member), periods(m.Periods))
		}
		return t.end()
	})
}

// periods is the seqs that a member sees: 1–9, 12–.
func periods(spans []api.Period) string {
	var parts []string
	for _, p := range spans {
		if p.To == 0 {
			parts = append(parts, fmt.Sprintf("%d–", p.From))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", p.From, p.To))
		}
	}
	return strings.Join(parts, ", ")
}

// sentReply is the answer to a send.
type sentReply struct {
	Conv  impart.ConvID `json:"conv"`
	Seq   impart.Seq    `json:"seq"`
	MID   impart.MID    `json:"mid"`
	Dup   bool          `json:"dup"`
	Epoch impart.Epoch  `json:"epoch"`
	At    impart.Millis `json:"at"`
}

func convSendCommand(env streams) *cobra.Command {
	var as, cmid string
	send := leaf(env, "send", "Store a message, as any user or as system", []string{"CONV", "TEXT"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
		if cmid == "" {
			cmid = uuid.NewString()
		}
		message := api.AdminMessage{Sender: impart.UserID(as), CMID: impart.CMID(cmid), Body: args[1]}
		var sent sentReply
		raw, err := c.ask(cmd.Context(), http.MethodPost, adminPath("conversations", args[0], "messages"), message, &sent)
		if err != nil {
			return fmt.Errorf("%w\nto try again without sending it twice, repeat it with --cmid %s", err, oneLine(cmid))
		}
		return c.show(cmd, raw, func(w io.Writer) error {
			note := ""
			if sent.Dup {
				note = ", by an earlier attempt"
			}
			_, err := fmt.Fprintf(w, "stored as %s %d (%s)%s\n", oneLine(string(sent.Conv)), sent.Seq, sent.MID, note)
			return err
		})
	})
	send.Flags().StringVar(&as, "as", string(impart.System), "who it is from")
	send.Flags().StringVar(&cmid, "cmid", "", "the message's own id: the same one again is never a second message; made up if not given")
	return send
}

func memberCommand(env streams) *cobra.Command {
	var role string
	put := leaf(env, "put", "Let a user join, or change a member's role", []string{"CONV", "USER"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
		return showConv(cmd, c, http.MethodPut, api.RoleChange{Role: impart.Role(role)}, "conversations", args[0], "members", args[1])
	})
	put.Flags().StringVar(&role, "role", "", "member or admin, who may recall messages of others")
	return family("member", "Members of a conversation: put, remove",
		put,
		leaf(env, "remove", "End a membership; what was visible stays visible", []string{"CONV", "USER"}, func(cmd *cobra.Command, c *adminClient, args []string) error {
			return showConv(cmd, c, http.MethodDelete, nil, "conversations", args[0], "members", args[1])
		}),
	)
}

func epochCommand(env streams) *cobra.Command {
	var yes bool
	raise := leaf(env, "raise", "Start a new epoch, after history may have been rewritten", nil, func(cmd *cobra.Command, c *adminClient, _ []string) error {
		if !yes {
			return usagef("raising the epoch makes every device compare its messages and sync again; repeat it with --yes if a backup was restored")
		}
		var e api.Epoch
		raw, err := c.ask(cmd.Context(), http.MethodPost, adminPath("epoch"), nil, &e)
		if err != nil {
			return err
		}
		return c.show(cmd, raw, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "the epoch is %d\n", e.Epoch)
			return err
		})
	})
	show := leaf(env, "show", "The epoch, and what became of the last failover", nil, func(cmd *cobra.Command, c *adminClient, _ []string) error {
		var h api.History
		raw, err := c.ask(cmd.Context(), http.MethodGet, adminPath("epoch"), nil, &h)
		if err != nil {
			return err
		}
		return c.show(cmd, raw, func(w io.Writer) error { return showHistory(w, &h) })
	})
	show.Long = "Tells the epoch, whether the database was replaced and that waits for its judgement, and how the last judgement went, as the server that is asked knows it."
	raise.Flags().BoolVar(&yes, "yes", false, "do it")
	raise.Long = "Raises the store's epoch. To be done once after a backup was restored or a failover may have lost commits: " +
		"devices then keep only the events that the server still has, pull the others again, and send again what was lost."
	return family("epoch", "The store's epoch: show, raise", show, raise)
}
