package genesis

import (
	"fmt"
	"os"
	"time"

	"cadre.dev/client"
	"cadre.dev/platform/phala"
)

// OpenCloud opens the platform of a cluster and returns its key: the argument key, or else the
// environment variable that p names, or p's own key.
func OpenCloud(p client.Platform, key string) (*phala.Client, string, error) {
	if p.Driver != "phala" {
		return nil, "", fmt.Errorf("platform %q is not known: only phala", p.Driver)
	}
	if key == "" {
		key = p.APIKey
	}
	if key == "" && p.APIKeyEnv != "" {
		if key = os.Getenv(p.APIKeyEnv); key == "" {
			return nil, "", fmt.Errorf("the platform's API key is missing: set %s", p.APIKeyEnv)
		}
	}
	c, err := phala.New(phala.Config{BaseURL: p.APIURL, APIKey: key, CallTimeout: 30 * time.Second})
	return c, key, err
}
