package kmsauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cadre.dev/core/strictjson"
)

// maxFile bounds a File in bytes.
const maxFile = 1 << 20

// File lists the boots that get keys without a question to the coordinators. All ids are hex, in either case, with
// or without "0x". Empty lists allow nothing, except Devices.
type File struct {
	// OSImages are the digests of the guest images (digest.txt) that may boot, for apps and key services.
	OSImages []string `json:"osImages"`
	// GatewayAppID is the app of the platform's gateway, which the key service gives to its guests.
	GatewayAppID string `json:"gatewayAppId,omitempty"`
	// AllowedTCBStatuses are Intel's words; absent: UpToDate. AllowedAdvisoryIDs are the advisories
	// that a machine may have.
	AllowedTCBStatuses []string `json:"allowedTcbStatuses,omitempty"`
	AllowedAdvisoryIDs []string `json:"allowedAdvisoryIds,omitempty"`
	// KMS are the key services themselves.
	KMS KMS `json:"kms"`
	// Apps by id: the coordinators, the gateway, and others that are not Cadre's. The coordinators are
	// asked about every other app.
	Apps map[string]App `json:"apps"`
	// These three are only shown, to a client of the key service.
	KMSContractAddr   string `json:"kmsContractAddr,omitempty"`
	ChainID           uint64 `json:"chainId,omitempty"`
	AppImplementation string `json:"appImplementation,omitempty"`
}

// KMS are the key services that may run, by the aggregated measurement of their boot.
type KMS struct {
	MRAggregated   []string `json:"mrAggregated"`
	Devices        []string `json:"devices,omitempty"`
	AllowAnyDevice bool     `json:"allowAnyDevice,omitempty"`
}

// App is an app that boots by the File.
type App struct {
	ComposeHashes []string `json:"composeHashes"`
	// Devices are the machines on which it may boot; empty, or with AllowAnyDevice: every machine.
	Devices        []string `json:"devices,omitempty"`
	AllowAnyDevice bool     `json:"allowAnyDevice,omitempty"`
}

// Read reads a File strictly, with all problems at once.
func Read(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("static file: %w; `cadre kms-auth init` writes one", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return File{}, fmt.Errorf("static file %s: %w", path, err)
	}
	if len(text) > maxFile {
		return File{}, fmt.Errorf("static file %s: has more than %d bytes", path, maxFile)
	}
	var out File
	if err := strictjson.Unmarshal(text, &out); err != nil {
		return File{}, fmt.Errorf("static file %s: %w", path, err)
	}
	if problems := out.problems(); len(problems) > 0 {
		return File{}, fmt.Errorf("static file %s: %s", path, strings.Join(problems, "; "))
	}
	return out, nil
}

// Bytes of the ids.
const (
	appBytes  = 20
	hashBytes = 32
)

func (f File) problems() (out []string) {
	check := func(path string, bytes int, ids ...string) {
		for i, id := range ids {
			if plain := plainHex(id); len(plain) != 2*bytes || strings.Trim(plain, "0123456789abcdef") != "" {
				out = append(out, fmt.Sprintf("%s[%d]: %.80q is not %d hex digits", path, i, id, 2*bytes))
			}
		}
	}
	check("osImages", hashBytes, f.OSImages...)
	if f.GatewayAppID != "" && f.GatewayAppID != "any" {
		check("gatewayAppId", appBytes, f.GatewayAppID)
	}
	check("kms.mrAggregated", hashBytes, f.KMS.MRAggregated...)
	check("kms.devices", hashBytes, f.KMS.Devices...)
	seen := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(f.Apps)) {
		check("apps", appBytes, id)
		if seen[plainHex(id)] {
			out = append(out, fmt.Sprintf("apps: %s is there twice: keep one", plainHex(id)))
		}
		seen[plainHex(id)] = true
		check(fmt.Sprintf("apps[%q].composeHashes", id), hashBytes, f.Apps[id].ComposeHashes...)
		check(fmt.Sprintf("apps[%q].devices", id), hashBytes, f.Apps[id].Devices...)
	}
	return out
}

// plainHex is an id in lower case without "0x".
func plainHex(id string) string { return strings.TrimPrefix(strings.ToLower(id), "0x") }

// app returns the rule of an app.
func (f File) app(id string) (App, bool) {
	for name, one := range f.Apps {
		if plainHex(name) == plainHex(id) {
			return one, true
		}
	}
	return App{}, false
}

// with returns f whose rule of an app has these compose hashes; the rest of the rule stays.
func (f File) with(id string, hashes []string) File {
	id = plainHex(id)
	one, _ := f.app(id)
	one.ComposeHashes = hashes
	f.Apps = maps.Clone(f.Apps)
	maps.DeleteFunc(f.Apps, func(name string, _ App) bool { return plainHex(name) == id })
	if f.Apps == nil {
		f.Apps = map[string]App{}
	}
	f.Apps["0x"+id] = one
	return f
}

// Allow adds a compose hash of the coordinators' app to the File at path, for a boot that follows.
// changed is false if it was there.
func Allow(path, appID, hash string) (changed bool, err error) {
	return rewrite(path, appID, func(before []string) []string {
		if slices.ContainsFunc(before, func(h string) bool { return plainHex(h) == hash }) {
			return before
		}
		return append(slices.Clone(before), "0x"+hash)
	})
}

// AllowOnly leaves one compose hash of the coordinators' app in the File at path: coordinators of an
// earlier file get no more keys.
func AllowOnly(path, appID, hash string) (changed bool, err error) {
	return rewrite(path, appID, func(before []string) []string {
		if len(before) == 1 && plainHex(before[0]) == hash {
			return before
		}
		return []string{"0x" + hash}
	})
}

func rewrite(path, appID string, change func([]string) []string) (changed bool, err error) {
	f, err := Read(path)
	if err != nil {
		return false, err
	}
	one, _ := f.app(appID)
	next := change(one.ComposeHashes)
	if slices.Equal(next, one.ComposeHashes) {
		return false, nil
	}
	return true, f.with(appID, next).Write(path)
}

// Init adds compose hashes of an app, OS images and key services to the File at path. It makes the File
// if there is none. An empty appID adds no app.
func Init(path, appID string, hashes, images, keyServices []string) (File, error) {
	f, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = File{OSImages: []string{}, KMS: KMS{MRAggregated: []string{}}, Apps: map[string]App{}}, nil
	}
	if err != nil {
		return f, err
	}
	if appID != "" {
		one, _ := f.app(appID)
		f = f.with(appID, merged(one.ComposeHashes, hashes))
	}
	f.OSImages, f.KMS.MRAggregated = merged(f.OSImages, images), merged(f.KMS.MRAggregated, keyServices)
	if problems := f.problems(); len(problems) > 0 {
		return f, errors.New(strings.Join(problems, "; "))
	}
	return f, f.Write(path)
}

// merged adds ids that before lacks.
func merged(before, more []string) []string {
	out := append([]string{}, before...)
	for _, id := range more {
		if !slices.ContainsFunc(out, func(h string) bool { return plainHex(h) == plainHex(id) }) {
			out = append(out, "0x"+plainHex(id))
		}
	}
	return out
}

// Write writes f to path in one step, so that a reader never sees half of it.
func (f File) Write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode static file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".kms-auth-*")
	if err != nil {
		return fmt.Errorf("write static file: %w", err)
	}
	defer os.Remove(tmp.Name())
	// It has no secret, and the webhook may run as another user.
	_, err = tmp.Write(append(text, '\n'))
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write static file %s: %w", path, err)
	}
	return nil
}
