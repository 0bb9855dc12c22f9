package provider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// progress logs the progress of a wait, each message once. The zero value is ready; one goroutine
// at a time.
type progress struct {
	// last is the view that was seen last; nil: none.
	last *client.View
	said string
}

// see logs each change.
func (p *progress) see(ctx context.Context) func(client.View) {
	return func(v client.View) {
		for _, line := range format.Changes(p.last, v) {
			tflog.Info(ctx, line)
		}
		p.last, p.said = &v, ""
	}
}

// lost logs that no coordinator answers.
func (p *progress) lost(ctx context.Context) func(error) {
	return func(err error) {
		first, _, _ := strings.Cut(err.Error(), "\n")
		if first != p.said {
			tflog.Warn(ctx, "no coordinator answers, still trying: "+first)
		}
		p.said = first
	}
}

// message logs each new text.
func (p *progress) message(ctx context.Context) func(string) {
	return func(text string) {
		if text != p.said {
			tflog.Info(ctx, text)
		}
		p.said = text
	}
}
