package phala

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/dstacksdk"
	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
)

// envCloud is a platform with one CVM. The test chooses the env key that it shows.
type envCloud struct {
	key       string         // the app's key according to the CVM and provision
	shown     map[string]any // the reply about the signature, nil: 404
	sealed    atomic.Value   // the encrypted env that came with a write
	effective atomic.Int32   // writes with an effect
}

const (
	envKMS      = "kms_of_the_node"
	envApp      = "0101010101010101010101010101010101010101"
	envDocument = `{"allowed_envs":["WHO"],"docker_compose_file":"services: {}","name":"web"}`
)

func (e *envCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const vm = "0123456789abcdef0123456789abcdef"
	var reply any
	switch {
	case strings.Contains(r.URL.Path, "/pubkey/"):
		if e.shown == nil || !strings.HasSuffix(r.URL.Path, "/kms/"+envKMS+"/pubkey/"+envApp) {
			http.NotFound(w, r)
			return
		}
		reply = e.shown
	case r.Method == http.MethodGet || r.URL.Path == "/status/batch": // a read
		reply = map[string]any{"id": "cvm_1", "name": "web-0", "app_id": "app_" + envApp, "vm_uuid": vm, "status": "running", "encrypted_env_pubkey": e.key}
	case strings.HasSuffix(r.URL.Path, "/provision"):
		sum := sha256.Sum256([]byte(envDocument))
		reply = map[string]any{"app_id": envApp, "compose_hash": hex.EncodeToString(sum[:]), "app_env_encrypt_pubkey": e.key, "kms_id": envKMS}
	default:
		var body struct {
			Sealed string `json:"encrypted_env"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		e.sealed.Store(body.Sealed)
		e.effective.Add(1)
		reply = map[string]any{"id": "cvm_1", "name": "web-0", "app_id": envApp, "vm_uuid": vm, "status": "in_progress"}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply)
}

// TestAForgedEnvKeyIsRefused: where the platform shows a signature over the key
// that env is sealed for, it is the key service's, or nothing is sealed or sent.
func TestAForgedEnvKeyIsRefused(t *testing.T) {
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keyOf := func(c *attestsim.Cloud) string {
		k, err := c.EnvKey(envApp)
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(k.PublicKey().Bytes())
	}
	signed := func(c *attestsim.Cloud, at time.Time) map[string]any {
		stamp := uint64(at.Unix())
		legacy, v1, err := c.SignEnvKey(envApp, stamp)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]any{"signature": hex.EncodeToString(legacy), "signature_v1": "0x" + hex.EncodeToString(v1), "timestamp": stamp}
	}
	only := func(m map[string]any, names ...string) map[string]any {
		out := maps.Clone(m)
		maps.DeleteFunc(out, func(k string, _ any) bool {
			for _, n := range names {
				if k == n {
					return false
				}
			}
			return true
		})
		return out
	}
	now := time.Now()
	own, theirs := signed(cloud, now), signed(stranger, now)
	for _, c := range []struct {
		name    string
		key     string
		shown   map[string]any
		refused bool
	}{
		{"signed", keyOf(cloud), own, false},
		{"signed in the older form", keyOf(cloud), only(own, "signature"), false},
		{"no signature is shown", keyOf(cloud), map[string]any{"public_key": keyOf(cloud)}, true},
		{"no such call", keyOf(cloud), nil, true},
		{"another key under the right signature", keyOf(stranger), own, true},
		{"another key, signed by its owner", keyOf(stranger), theirs, true},
		{"another key, signed in the older form", keyOf(stranger), only(theirs, "signature"), true},
		{"the right key under another's signature", keyOf(cloud), theirs, true},
		{"an old signature", keyOf(cloud), only(signed(cloud, now.Add(-time.Hour)), "signature_v1", "timestamp"), true},
		{"no timestamp", keyOf(cloud), only(own, "signature_v1"), true},
		{"not hex", keyOf(cloud), map[string]any{"signature": "zz"}, true},
	} {
		server := &envCloud{key: c.key, shown: c.shown}
		client := serve(t, server.ServeHTTP)
		client.keyService = func(context.Context) ([]byte, error) { return cloud.KMSPublicKey(), nil }
		env := map[string]string{"WHO": "me & you"}
		tmpl := platform.Template{AppCompose: []byte(envDocument), Env: env}
		for call, write := range map[string]func() error{
			"update": func() error {
				key, err := hex.DecodeString(c.key)
				if err != nil {
					return err
				}
				_, err = client.Update(t.Context(), platform.UpdateRequest{VMUUID: "01234567-89ab-cdef-0123-456789abcdef", ComposeHash: strings.Repeat("cd", 32), EnvKey: key, KMS: envKMS, Env: env})
				return err
			},
			"create": func() error {
				p, err := client.Provision(t.Context(), "", tmpl)
				if err != nil {
					return err
				}
				_, err = client.Create(t.Context(), platform.CreateRequest{Name: "web-0", Provisioned: p, Template: tmpl})
				return err
			},
		} {
			before := server.effective.Load()
			err := write()
			if c.refused {
				if !errors.Is(err, platform.ErrRefused) || server.effective.Load() != before {
					t.Errorf("%s, %s: error %v, %d calls with an effect", call, c.name, err, server.effective.Load()-before)
				}
				if c.name != "not hex" && c.name != "no such call" && !errors.Is(err, dstacksdk.ErrEnvKey) {
					t.Errorf("%s, %s: error %v does not say why", call, c.name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", call, c.name, err)
				continue
			}
			private, err := cloud.EnvKey(envApp)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := platformtest.OpenEnv(private.Bytes(), server.sealed.Load().(string)); err != nil || !maps.Equal(got, env) {
				t.Errorf("%s, %s: the guest reads %v, error %v", call, c.name, got, err)
			}
		}
	}
}
