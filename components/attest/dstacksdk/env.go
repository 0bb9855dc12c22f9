package dstacksdk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
)

// The guest's bounds of a set of values.
const (
	maxEnvItems = 1024
	maxEnvName  = 255
	maxEnvValue = 128 << 10
	maxEnvTotal = 1 << 20
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ErrEnv means that the values break the guest's rules; the guest would silently drop them.
var ErrEnv = errors.New("env refused")

// EnvNames returns the names in the order in which they are sealed: sorted, so
// that equal sets give equal allowed_envs and so equal compose hashes.
func EnvNames(env map[string]string) []string {
	names := make([]string, 0, len(env))
	for name := range env {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckEnv reports values that the guest would reject or drop, or that the SDK would change
// silently; nil if there are none.
func CheckEnv(env map[string]string) error {
	if len(env) > maxEnvItems {
		return fmt.Errorf("%w: %d values, the guest takes at most %d", ErrEnv, len(env), maxEnvItems)
	}
	total := 0
	var errs []error
	for _, name := range EnvNames(env) {
		if !envName.MatchString(name) || len(name) > maxEnvName {
			errs = append(errs, fmt.Errorf("%w: name %q must be letters, digits and '_', not starting with a digit, at most %d bytes", ErrEnv, name, maxEnvName))
		}
		if len(env[name]) > maxEnvValue {
			errs = append(errs, fmt.Errorf("%w: value of %s has %d bytes, at most %d", ErrEnv, name, len(env[name]), maxEnvValue))
		}
		if !utf8.ValidString(env[name]) {
			errs = append(errs, fmt.Errorf("%w: value of %s is not UTF-8: encode it, as base64 for example", ErrEnv, name))
		}
		total += len(name) + len(env[name])
	}
	if total > maxEnvTotal {
		errs = append(errs, fmt.Errorf("%w: %d bytes in all, at most %d", ErrEnv, total, maxEnvTotal))
	}
	return errors.Join(errs...)
}

// SealEnv encrypts env for recipient, an app's X25519 key of 32 bytes, and returns hex. Only
// holders of the app's key can read it. It is no proof of origin: values must never carry a trust
// decision.
func SealEnv(recipient []byte, env map[string]string) (string, error) {
	if err := CheckEnv(env); err != nil {
		return "", err
	}
	// Not nil: the SDK would write null, which a guest rejects as a list.
	vars := make([]dstack.EnvVar, 0, len(env))
	for _, name := range EnvNames(env) {
		vars = append(vars, dstack.EnvVar{Key: name, Value: env[name]})
	}
	sealed, err := dstack.EncryptEnvVars(vars, hex.EncodeToString(recipient))
	if err != nil {
		return "", fmt.Errorf("seal env: %w", err)
	}
	return sealed, nil
}
