// Package drivers is the registry of platform drivers: the text that names a platform's API decides
// which one drives it.
package drivers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/platform"
	"cadre.dev/platform/phala"
	"cadre.dev/platform/vmm"
)

// vmmPrefix begins the text of hosts with dstack-vmm.
const vmmPrefix = "vmm:"

// Options say how to reach a platform.
type Options struct {
	// API is empty (Phala Cloud), http://... or https://... (a server with its API), or
	// vmm:NAME[@REGION]=URL,NAME[@REGION]=URL for hosts with dstack-vmm.
	API string
	// Key is the API key of Phala Cloud, or the token of the hosts, which may have none.
	Key string
	// Log receives retries; nil discards.
	Log *slog.Logger
	// KeyService returns the public key of the service whose signature over an app's env key counts;
	// nil: the platform's key is taken as it comes.
	KeyService func(context.Context) ([]byte, error)
	// Settle, ShutdownTimeout and CallTimeout are as in the driver's Config; 0: its defaults.
	Settle, ShutdownTimeout, CallTimeout time.Duration
}

// Names are the names of the drivers, the default first, as group specs write them.
func Names() []string { return []string{group.PlatformPhala, group.PlatformVMM} }

// Of is the name of the driver for an API text; "" when no driver takes it.
func Of(api string) string {
	switch {
	case api == "", strings.HasPrefix(api, "http://"), strings.HasPrefix(api, "https://"):
		return group.PlatformPhala
	case strings.HasPrefix(api, vmmPrefix):
		return group.PlatformVMM
	}
	return ""
}

// Open makes the driver that o.API names. It makes no request. The driver has NextAppID too.
func Open(o Options) (platform.Platform, error) {
	switch Of(o.API) {
	case group.PlatformPhala:
		return opened(phala.New(phala.Config{
			BaseURL: o.API, APIKey: o.Key, Log: o.Log, KeyService: o.KeyService,
			Settle: o.Settle, ShutdownTimeout: o.ShutdownTimeout, CallTimeout: o.CallTimeout,
		}))
	case group.PlatformVMM:
		endpoints, err := vmm.ParseEndpoints(strings.TrimPrefix(o.API, vmmPrefix))
		if err != nil {
			return nil, fmt.Errorf("platform api: %w", err)
		}
		return opened(vmm.New(vmm.Config{
			Endpoints: endpoints, Token: o.Key, Log: o.Log, KeyService: o.KeyService,
			Settle: o.Settle, ShutdownTimeout: o.ShutdownTimeout, CallTimeout: o.CallTimeout,
		}))
	}
	// The text may be a key in the wrong place, and is not shown.
	return nil, errors.New("platform api: no driver takes it: use https://... for Phala Cloud, or vmm:NAME=URL for hosts with dstack-vmm")
}

// opened avoids an interface around a nil pointer.
func opened[P platform.Platform](p P, err error) (platform.Platform, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}
