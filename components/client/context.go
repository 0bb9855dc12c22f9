package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cadre.dev/attest"
	"cadre.dev/core/clusterid"
)

// Context is the local configuration for one cluster. It holds the operator's token, so only the
// file's owner can read it.
type Context struct {
	Cluster string  `json:"cluster"`
	Gateway Gateway `json:"gateway"`
	// CoordinatorAppID is the coordinators' application on the platform.
	CoordinatorAppID string `json:"coordinator_app_id"`
	// CoordinatorAppNonce claims the app id during the creation of the cluster.
	CoordinatorAppNonce string `json:"coordinator_app_nonce,omitempty"`
	// CoordinatorComposeHashes, if known, are the only compose hashes that Attest accepts. Empty:
	// any compose file of the app.
	CoordinatorComposeHashes []string `json:"coordinator_compose_hashes,omitempty"`
	// Token is the operator's Consul ACL token.
	Token string `json:"token"`
	// CAPEM is the pinned cluster CA and ClusterID the pinned cluster ID (core/clusterid), which
	// its subject names; both empty before the first Attest.
	CAPEM     string `json:"ca_pem,omitempty"`
	ClusterID string `json:"cluster_id,omitempty"`
	// Trust defines which evidence proves a coordinator of this cluster.
	Trust    attest.Trust `json:"trust"`
	Platform Platform     `json:"platform,omitzero"`
	// Replacing is the coordinator whose replacement is not over; nil: there is none.
	Replacing *Replacing `json:"replacing,omitempty"`
	// Restoring: a restore was begun with this context and has not ended, so that the existing
	// coordinators wait for a backup.
	Restoring bool `json:"restoring,omitempty"`
}

// Replacing is a replacement of a coordinator that has begun.
type Replacing struct {
	Slot string `json:"slot"`
	// VMUUID is the lost CVM, which is deleted; "": the platform had none.
	VMUUID string `json:"vm_uuid,omitempty"`
}

// Gateway is the platform's TLS pass-through gateway.
type Gateway struct {
	// Domain is the base domain; names are <app id>-<port>s.<domain>.
	Domain string `json:"domain"`
	// Address (host:port) is dialled instead of the name; empty on the real platform.
	Address string `json:"address,omitempty"`
}

// Platform identifies the platform of the cluster's CVMs.
type Platform struct {
	Driver string `json:"driver,omitempty"`
	APIURL string `json:"api_url,omitempty"`
	// APIKeyEnv names the environment variable that holds the key; APIKey is the
	// key itself, for a local cloud.
	APIKeyEnv string `json:"api_key_env,omitempty"`
	APIKey    string `json:"api_key,omitempty"`
}

// Simulated reports whether the cluster's root of trust is another than Intel's. It uses only the
// operator's local trust, and no answer of a coordinator.
func (c Context) Simulated() bool { return c.Trust.AllowSimulated || c.Trust.RootsPEM != "" }

// ErrNoContext means that there is no context file to read.
var ErrNoContext = errors.New("no cluster is known on this machine")

// maxContext bounds a context file.
const maxContext = 1 << 20

var contextName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Dir returns the folder of context files: $XDG_CONFIG_HOME/cadre or ~/.config/cadre.
func Dir() (string, error) {
	base, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the configuration folder: %w", err)
	}
	return filepath.Join(base, "cadre"), nil
}

// Path returns the file of a context. name is a cluster's name, or a path when it contains a '/' or
// ends in ".json". An empty name means $CADRE_CONTEXT, then the only file in Dir.
func Path(name string) (string, error) {
	if name == "" {
		name = os.Getenv("CADRE_CONTEXT")
	}
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".json") {
		return name, nil
	}
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	if name != "" {
		if !contextName.MatchString(name) {
			return "", fmt.Errorf("context %q: want a cluster's name or the path of a .json file", name)
		}
		return filepath.Join(dir, name+".json"), nil
	}
	names, err := Contexts()
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", fmt.Errorf("%w: name a context file with --context or CADRE_CONTEXT, copy one to %s, or make a cluster with `cadre cluster create FILE`", ErrNoContext, dir)
	case len(names) > 1:
		return "", fmt.Errorf("several clusters are known (%s): name one with --context or CADRE_CONTEXT", strings.Join(names, ", "))
	}
	return filepath.Join(dir, names[0]+".json"), nil
}

// Contexts lists the clusters in Dir, sorted.
func Contexts() ([]string, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read contexts: %w", err)
	}
	out := []string{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && contextName.MatchString(name) && !e.IsDir() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// LoadContext reads a context file strictly. It rejects a file that others can read, because the
// file holds a token.
func LoadContext(path string) (Context, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, fmt.Errorf("%w: %s does not exist; make the cluster with `cadre cluster create FILE` or set --context", ErrNoContext, path)
	}
	if err != nil {
		return Context{}, fmt.Errorf("read context: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Context{}, fmt.Errorf("read context: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Context{}, fmt.Errorf("context %s holds a token but others can read it (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxContext+1))
	if err != nil {
		return Context{}, fmt.Errorf("read context %s: %w", path, err)
	}
	if len(text) > maxContext {
		return Context{}, fmt.Errorf("context %s is larger than %d bytes", path, maxContext)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var c Context
	if err := dec.Decode(&c); err != nil {
		// If only the strict reader fails, the file has a field that this version does not know.
		if json.Unmarshal(text, &Context{}) == nil {
			return Context{}, fmt.Errorf("context %s: %w: written by another version of cadre?", path, err)
		}
		return Context{}, fmt.Errorf("context %s: %w", path, err)
	}
	return c, c.check(path)
}

func (c Context) check(path string) error {
	missing := []string{}
	for _, f := range []struct{ name, value string }{
		{"cluster", c.Cluster}, {"gateway.domain", c.Gateway.Domain},
		{"coordinator_app_id", c.CoordinatorAppID}, {"token", c.Token},
	} {
		if f.value == "" {
			missing = append(missing, f.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("context %s: empty: %s", path, strings.Join(missing, ", "))
	}
	if c.ClusterID != "" {
		if err := clusterid.Check(c.ClusterID); err != nil {
			return fmt.Errorf("context %s: %w; remove cluster_id and ca_pem, and prove the coordinators with `cadre cluster connect`", path, err)
		}
	}
	return nil
}

// Save writes c to path with mode 0600, atomically.
func (c Context) Save(path string) error {
	if err := c.check(path); err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode context: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write context: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".context-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write context: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(text, '\n'))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write context %s: %w", path, err)
	}
	return nil
}

// ServerName returns the gateway's name for a port of the coordinators.
func (c Context) ServerName(port int) string {
	return fmt.Sprintf("%s-%ds.%s", c.CoordinatorAppID, port, c.Gateway.Domain)
}

// gatewayAddress returns the address to dial.
func (c Context) gatewayAddress(port int) string {
	if c.Gateway.Address != "" {
		return c.Gateway.Address
	}
	return c.ServerName(port) + ":443"
}

// CoordinatorDNSName is the DNS name in each coordinator's certificate.
func (c Context) CoordinatorDNSName() string { return "coordinator." + c.Cluster + ".cadre" }
