package api

import (
	"context"
	"testing"

	"github.com/impart-im/impart"
)

// fake answers what a test tells it to, and panics for the rest.
type fake struct {
	impart.Logic
	impart.Admin
	err    error
	sends  []impart.Send
	acks   func(impart.Ack) []impart.Acked
	before func()
}

func (f *fake) run() error {
	if f.before != nil {
		f.before()
	}
	return f.err
}

func (f *fake) Authorize(context.Context, impart.Identity) error { return nil }

func (f *fake) Visit(_ context.Context, id impart.Identity, device impart.DeviceID, _ string) (impart.Session, error) {
	return impart.Session{User: id.User, Device: device, Install: 1}, nil
}

func (f *fake) Send(_ context.Context, sends []impart.Send) []impart.Sent {
	f.sends = append(f.sends, sends...)
	sent := impart.Sent{Conv: sends[0].Conv, Seq: 7, MID: "m-7", Epoch: 1, At: 1, Err: f.run()}
	if sent.Err != nil {
		sent = impart.Sent{Err: sent.Err}
	}
	return []impart.Sent{sent}
}

func (f *fake) Recall(context.Context, impart.Recall) (impart.Sent, error) {
	return impart.Sent{}, f.run()
}

func (f *fake) Sync(context.Context, impart.Sync) (impart.Page, error) { return impart.Page{}, f.run() }

func (f *fake) Pull(context.Context, impart.Pull) (impart.Pulled, error) {
	return impart.Pulled{}, f.run()
}

func (f *fake) Ack(_ context.Context, ack impart.Ack) []impart.Acked {
	if f.acks != nil {
		return f.acks(ack)
	}
	acked := make([]impart.Acked, len(ack.Items))
	for i, item := range ack.Items {
		acked[i] = impart.Acked{Conv: item.Conv, Delivered: item.Seq, Err: f.run()}
	}
	return acked
}

func (f *fake) Read(context.Context, impart.Read) (impart.Seq, error) { return 0, f.run() }

func (f *fake) Who(context.Context, impart.Who) (impart.Report, error) {
	return impart.Report{}, f.run()
}

func (f *fake) RaiseEpoch(context.Context) (impart.Epoch, error) { return 0, f.run() }

// newFake is a world whose rules are a fake.
func newFake(t *testing.T, f *fake, change func(*Config)) *world {
	t.Helper()
	return newWorld(t, func(config *Config) {
		config.Logic, config.Admin = f, f
		if change != nil {
			change(config)
		}
	})
}
