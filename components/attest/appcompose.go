package attest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/attest/internal/strictjson"
)

// MaxAppComposeSize is dstack's own limit for app-compose.json, in bytes.
const MaxAppComposeSize = 256 << 10

// appCompose is the part of app-compose.json that decides what runs and with
// which keys. The platform may add names that we do not know.
type appCompose struct {
	Runner                  string  `json:"runner"`
	DockerComposeFile       string  `json:"docker_compose_file"`
	BashScript              string  `json:"bash_script"`
	InitScript              string  `json:"init_script"`
	PreLaunchScript         string  `json:"pre_launch_script"`
	KMSEnabled              *bool   `json:"kms_enabled"`
	LocalKeyProviderEnabled bool    `json:"local_key_provider_enabled"`
	KeyProvider             *string `json:"key_provider"`
	NoInstanceID            bool    `json:"no_instance_id"`
}

// readAppCompose returns the docker compose text of the preimage and why the
// preimage is not acceptable, "" if it is. The bytes are measured, so a bad one
// is not forged evidence but a bad Revision: policy's to refuse.
func readAppCompose(raw []byte, allowedScripts []string) (composeText, problem string) {
	if len(raw) == 0 {
		return "", "app-compose.json is not part of the evidence"
	}
	var c appCompose
	if err := strictjson.UnmarshalOpen(raw, &c); err != nil {
		return "", "app-compose.json: " + err.Error()
	}
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if c.Runner != "docker-compose" {
		add("runner is %q, must be \"docker-compose\"", c.Runner)
	}
	if c.DockerComposeFile == "" {
		add("docker_compose_file is empty")
	}
	if c.BashScript != "" {
		add("bash_script is set, must be empty")
	}
	if c.InitScript != "" {
		add("init_script is set, must be empty")
	}
	if c.PreLaunchScript != "" {
		sum := sha256.Sum256([]byte(c.PreLaunchScript))
		if digest := hex.EncodeToString(sum[:]); !slices.Contains(allowedScripts, digest) {
			add("pre_launch_script (SHA-256 %s) is not one of the allowed ones", digest)
		}
	}
	if c.NoInstanceID {
		add("no_instance_id is true: instances could not be told apart")
	}
	// Without a KMS the app id changes with each compose hash and the keys do not
	// survive.
	if c.KMSEnabled != nil && !*c.KMSEnabled {
		add("kms_enabled is false")
	}
	if provider := c.provider(); provider != "kms" {
		add("key provider is %q, must be \"kms\"", provider)
	}
	return c.DockerComposeFile, strings.Join(problems, "; ")
}

// provider is the key provider that dstack derives from the three settings.
func (c appCompose) provider() string {
	switch {
	case c.KeyProvider != nil:
		return *c.KeyProvider
	case c.KMSEnabled != nil && *c.KMSEnabled:
		return "kms"
	case c.LocalKeyProviderEnabled:
		return "local"
	default:
		return "none"
	}
}
