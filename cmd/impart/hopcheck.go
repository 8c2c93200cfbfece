package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/impart-im/impart/internal/rpc"
)

// hopWithin bounds the doctor's look at the logic nodes, and soonExpired is how long
// before its end a certificate is worth a warning.
const (
	hopWithin   = 5 * time.Second
	soonExpired = 14 * 24 * time.Hour
)

// gatewayFindings looks at what a gateway rests on: logic nodes, and the bus.
func gatewayFindings(ctx context.Context, c *config) []finding {
	findings := certificateFindings(c, time.Now())
	findings = append(findings, nodesFinding(ctx, c))
	return append(findings, busFinding(ctx, c))
}

// nodesFinding connects to every logic node as a gateway would.
func nodesFinding(ctx context.Context, c *config) finding {
	log := slog.New(slog.DiscardHandler)
	secure, err := hopTLS(c, log)
	if err != nil {
		return finding{Check: "logic", Verdict: fail, Found: flat(err), Advice: "a gateway would not start"}
	}
	client, err := rpc.NewClient(rpc.ClientConfig{Nodes: c.Logic, TLS: secure, Name: "doctor", Bus: c.busName(), Version: buildInfo().String(), Log: log})
	if err != nil {
		return finding{Check: "logic", Verdict: fail, Found: flat(err), Advice: "a gateway would not start"}
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, hopWithin)
	defer cancel()
	for {
		fit, unfit, all := client.Nodes()
		if all > 0 && fit+unfit == all || ctx.Err() != nil {
			f := nodesVerdict(fit, unfit, all, client.Trouble())
			if err := client.OtherBus(); err != nil && f.Verdict == good {
				f.Verdict, f.Found = warn, f.Found+"; "+flat(err)
				f.Advice = "they do not hear each other: give both the same IM_BUS and IM_REDIS; until then messages come with the sweep"
			}
			return f
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func nodesVerdict(fit, unfit, all int, trouble error) finding {
	f := finding{Check: "logic", Verdict: good, Found: fmt.Sprintf("%d of %d nodes serve", fit, all)}
	if trouble != nil {
		f.Found += "; " + flat(trouble)
	}
	switch {
	case fit == 0:
		f.Verdict, f.Advice = fail, "a gateway would answer everything with UNAVAILABLE: start a logic node, and see that IM_LOGIC and the certificates lead to it"
	case unfit > 0 || fit < all:
		f.Verdict, f.Advice = warn, "the others take no calls: their logs say why"
	}
	return f
}

// certificateFindings judges the certificate that this process shows to the other role.
func certificateFindings(c *config, now time.Time) []finding {
	if c.LogicCert == "" {
		return []finding{{Check: "certificates", Verdict: good, Found: "none: the roles meet in plain text, on loopback or where IM_ALLOW_PLAINTEXT says so"}}
	}
	secrets, err := hopSecretsOf(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return []finding{{Check: "certificates", Verdict: fail, Found: flat(err), Advice: "a process of this role would not start"}}
	}
	leaf, err := x509.ParseCertificate(secrets.pair.get().Certificate[0])
	if err != nil {
		return []finding{{Check: "certificates", Verdict: fail, Found: flat(err), Advice: "the other role would not take it"}}
	}
	f := finding{Check: "certificates", Verdict: good, Found: "valid until " + leaf.NotAfter.UTC().Format(time.DateOnly)}
	switch {
	case now.After(leaf.NotAfter):
		f.Verdict, f.Advice = fail, "the certificate in IM_LOGIC_TLS_CERT has expired: the other role refuses it"
	case now.Before(leaf.NotBefore):
		f.Verdict, f.Advice = fail, "the certificate in IM_LOGIC_TLS_CERT is not valid yet: is the clock right?"
	case leaf.NotAfter.Sub(now) < soonExpired:
		f.Verdict, f.Advice = warn, "renew it: the new one is read while the process runs"
	}
	return []finding{f}
}
