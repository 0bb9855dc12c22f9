// Package drivers opens the platform that an API text names.
package drivers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/phala"
)

// Options of Open.
type Options struct {
	API, Key        string
	Log             *slog.Logger
	KeyService      func(context.Context) ([]byte, error)
	Settle          time.Duration
	ShutdownTimeout time.Duration
	CallTimeout     time.Duration
}

// Of names the driver of an API text.
func Of(api string) string {
	if strings.HasPrefix(api, "vmm:") {
		return "vmm"
	}
	return "phala"
}

// Open opens a platform.
func Open(o Options) (platform.Platform, error) {
	if Of(o.API) == "vmm" {
		return nil, errors.New("the vmm driver is not there yet")
	}
	return phala.New(phala.Config{BaseURL: o.API, APIKey: o.Key, Log: o.Log, KeyService: o.KeyService, Settle: o.Settle, ShutdownTimeout: o.ShutdownTimeout, CallTimeout: o.CallTimeout})
}
