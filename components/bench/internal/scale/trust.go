package scale

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/bench/internal/world"
	"cadre.dev/core/appcompose"
)

// operatorToken is the operator's.
const operatorToken = "4b1ac5b8-2f0a-44c8-b1e7-52d3e5a7c0de" //nolint:gosec // of a cluster that lives for a benchmark

const trustName = "trust.json"

// writeTrust writes the coordinators' trust into dir.
func writeTrust(hardware *attestsim.Cloud, dir, pccs string) (attest.Trust, error) {
	digest := sha256.Sum256([]byte(operatorToken))
	trust := attest.Trust{
		Cluster: world.Cluster, CoordinatorAppID: world.CoordinatorApp,
		RootsPEM: string(hardware.RootPEM()), AllowSimulated: true,
		KeyProvider: attest.KeyProvider{Name: "kms", ID: hardware.KeyProviderID()}, Images: hardware.Images(world.OSImage),
		OperatorTokenSHA256: hex.EncodeToString(digest[:]), Collateral: attest.TrustCollateral{PCCSURL: pccs},
	}
	raw, err := json.Marshal(trust)
	if err != nil {
		return trust, err
	}
	return trust, os.WriteFile(filepath.Join(dir, trustName), raw, 0o600)
}

// measured is the app-compose.json of the coordinators, with the trust file of dir in it.
func measured(dir string) ([]byte, error) {
	trust, err := os.ReadFile(filepath.Join(dir, trustName))
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"manifest_version": 2, "name": "coordinator", "runner": "docker-compose",
		"docker_compose_file": "services: {}\nconfigs:\n  trust:\n    content: '" + string(trust) + "'\n",
		"kms_enabled":         true, "key_provider": "kms", "gateway_enabled": true, "secure_time": true, "init_script": appcompose.InitScript,
	})
}
