package localcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Info is the part of DIR/cloud.json that this program reads.
type Info struct {
	// Platform is the API that the cloud speaks, phala or vmm; empty in the file of an older daemon.
	Platform string `json:"platform"`
	// APIURL is the text by which a driver reaches that API.
	APIURL string `json:"api_url"`
	// LocalURL is the base of the endpoints that no real platform has.
	LocalURL       string `json:"local_url"`
	APIKey         string `json:"api_key"`
	GatewayDomain  string `json:"gateway_domain"`
	GatewayAddress string `json:"gateway_address"`
	// GatewayCAFile signs the gateway's own certificate.
	GatewayCAFile string `json:"gateway_ca_file"`
	// Registry is the host:port of the cloud's images; empty where it serves none.
	Registry    string `json:"registry"`
	RootPEMFile string `json:"root_pem_file"`
	// at is [At] of the folder that it was read from.
	at string
}

// ErrNotUp means that no local cloud runs on this state folder.
var ErrNotUp = errors.New("no local cloud runs here")

// CloudFile is where the daemon writes how to reach it.
func CloudFile(dir string) string { return filepath.Join(dir, "cloud.json") }

// ReadInfo reads DIR/cloud.json.
func ReadInfo(dir string) (Info, error) {
	f, err := os.Open(CloudFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, fmt.Errorf("%w: %s does not exist; name another folder with --state or CADRE_LOCAL_STATE, or start one with `cadre local up%s`", ErrNotUp, CloudFile(dir), At(dir))
	}
	if err != nil {
		return Info{}, fmt.Errorf("read local cloud: %w", err)
	}
	defer f.Close()
	var info Info
	if err := json.NewDecoder(io.LimitReader(f, 1<<20)).Decode(&info); err != nil {
		return Info{}, fmt.Errorf("read %s: %w", CloudFile(dir), err)
	}
	if info.APIURL == "" || info.APIKey == "" {
		return Info{}, fmt.Errorf("read %s: api_url or api_key is empty", CloudFile(dir))
	}
	info.at = At(dir)
	return info, nil
}
