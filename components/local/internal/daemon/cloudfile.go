package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"cadre.dev/core/policy"
)

// CloudFile is DIR/cloud.json: everything a client of this cloud needs. It
// exists while the daemon is ready.
type CloudFile struct {
	// Platform is the API that the cloud speaks: phala or vmm.
	Platform string `json:"platform"`
	// APIURL is the text by which a driver reaches the API, from the host; APIURLInCVM the same for
	// programs in CVMs. On phala it is the API's base, "/api/v1" included; on vmm the list of Hosts,
	// "vmm:NAME=URL,NAME=URL". LocalURL is the base of the /_local endpoints.
	APIURL      string `json:"api_url"`
	APIURLInCVM string `json:"api_url_in_cvm"`
	LocalURL    string `json:"local_url"`
	APIKey      string `json:"api_key"`
	// Hosts are the endpoints of platform vmm, which take APIKey as their bearer token.
	Hosts []HostFile `json:"hosts,omitempty"`
	// GatewayDomain is the base domain of gateway names. Clients dial GatewayAddress on the host,
	// or GatewayAddressInCVM in CVMs, instead of resolving them.
	GatewayDomain       string `json:"gateway_domain"`
	GatewayAddress      string `json:"gateway_address"`
	GatewayAddressInCVM string `json:"gateway_address_in_cvm"`
	// GatewayCAFile is the PEM file of the CA of the gateway's own certificate, for names that are
	// not pass-through.
	GatewayCAFile string `json:"gateway_ca_file"`
	// Registry is the host:port of the registry that serves this cloud's images, on the
	// host; empty where none are served.
	Registry string `json:"registry"`
	// RendezvousURL is the rendezvous server for programs in CVMs, and
	// RendezvousCABase64 the PEM that its certificate leads to, in base64; both empty
	// where none runs.
	RendezvousURL      string `json:"rendezvous_url"`
	RendezvousCABase64 string `json:"rendezvous_ca_base64"`
	// PCCSURL is the base of the caching service for the simulated manufacturer's
	// collateral, for the host; PCCSURLInCVM the same for programs in CVMs.
	PCCSURL      string `json:"pccs_url"`
	PCCSURLInCVM string `json:"pccs_url_in_cvm"`
	// RootPEMFile is the simulated attestation root; RootPEM its content.
	RootPEMFile string      `json:"root_pem_file"`
	RootPEM     string      `json:"root_pem"`
	KeyProvider KeyProvider `json:"key_provider"`
	// Images are the measurements of the OS images on offer.
	Images map[string][]policy.Measurement `json:"images"`
	// ImageDigests are the digests of the OS images on offer, which the KMS's webhook is asked about.
	ImageDigests map[string]string `json:"image_digests"`
	// StateDir is the daemon's state directory, PID its process.
	StateDir string `json:"state_dir"`
	PID      int    `json:"pid"`
}

// KeyProvider is the content of the key-provider event of every CVM here.
type KeyProvider struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

func cloudFilePath(dir string) string { return filepath.Join(dir, "cloud.json") }

// write replaces the file as a whole, so that a reader never sees half of it.
func (f CloudFile) write() error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cloud.json: %w", err)
	}
	path := cloudFilePath(f.StateDir)
	if err := os.WriteFile(path+".tmp", append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write cloud.json: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("replace cloud.json: %w", err)
	}
	return nil
}
