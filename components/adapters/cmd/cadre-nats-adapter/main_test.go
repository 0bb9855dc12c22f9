package main

import (
	"strings"
	"testing"
)

// A wrong flag ends the adapter before it serves, and the error names the flag.
func TestWrongFlags(t *testing.T) {
	t.Parallel()
	good := []string{"-slot", "nats-0", "-password-file", "/run/mesh/secrets/system"}
	for says, args := range map[string][]string{
		"slot":                              {"-slot", "", "-password-file", "x"},
		`"nats" is no name of a slot`:       {"-slot", "nats", "-password-file", "x"},
		"password-file":                     {"-slot", "nats-0"},
		"monitor":                           append([]string{"-monitor", "127.0.0.1:8222"}, good...),
		"server":                            append([]string{"-server", "127.0.0.1:4222"}, good...),
		"is not ACCOUNT:USER:PASSWORD_FILE": append([]string{"-drain", "APP:app"}, good...),
		"cert-file and key-file":            append([]string{"-cert-file", "x"}, good...),
		"ca-file":                           append([]string{"-ca-file", "/nonexistent"}, good...),
		"unexpected argument":               append(good, "serve"),
		"listen":                            append([]string{"-listen", "nowhere"}, good...),
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", args, err, says)
		}
	}
}
