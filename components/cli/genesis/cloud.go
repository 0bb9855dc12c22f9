package genesis

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"cadre.dev/cli/kmsauth"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/platform"
	"cadre.dev/platform/drivers"
)

// OpenCloud opens the platform of a cluster and returns its key: the argument key, or else the
// environment variable that p names, or p's own key.
func OpenCloud(p client.Platform, key string) (Cloud, string, error) {
	if named := drivers.Of(p.APIURL); !slices.Contains(group.Platforms(), p.Driver) || named != p.Driver {
		return nil, "", fmt.Errorf("platform %q with the API %q is not known: use one of %s", p.Driver, p.APIURL, strings.Join(group.Platforms(), ", "))
	}
	if key == "" {
		key = p.APIKey
	}
	if key == "" && p.APIKeyEnv != "" {
		if key = os.Getenv(p.APIKeyEnv); key == "" {
			return nil, "", fmt.Errorf("the platform's API key is missing: set %s", p.APIKeyEnv)
		}
	}
	opened, err := drivers.Open(drivers.Options{API: p.APIURL, Key: key, CallTimeout: 30 * time.Second})
	if err != nil {
		return nil, key, err
	}
	c, ok := opened.(Cloud)
	if !ok {
		return nil, key, fmt.Errorf("platform %q allots no app ids", p.Driver)
	}
	return c, key, nil
}

// platformOf is the platform of a cluster file, as its context keeps it.
func platformOf(p groupfile.ClusterPlatform) client.Platform {
	return client.Platform{Driver: p.Driver, APIURL: p.APIURL, APIKeyEnv: p.APIKeyEnv, APIKey: p.APIKey}
}

// OpenFor is OpenCloud for the platform of a cluster file.
func OpenFor(p groupfile.ClusterPlatform, key string) (Cloud, string, error) {
	return OpenCloud(platformOf(p), key)
}

// freest returns the node with the fewest of the CVMs, the first in the order of the cluster file; ""
// where the platform chooses.
func freest(nodes []string, cvms []platform.Instance) string {
	best, fewest := "", 0
	for _, node := range nodes {
		n := 0
		for _, i := range cvms {
			if i.Node == node {
				n++
			}
		}
		if best == "" || n < fewest {
			best, fewest = node, n
		}
	}
	return best
}

// allowKeys has the key service of own hosts give keys to coordinators of a compose hash; only: and to no
// other ones.
func (o Options) allowKeys(appID, hash string, only bool) error {
	file := o.Cluster.Platform.KMSAuthFile
	if file == "" {
		if o.Cluster.Platform.Driver == group.PlatformVMM && !only && o.KMSAllows != hash {
			o.Say(fmt.Sprintf("the key service must allow app %s with compose hash %s: `cadre kms-auth init --app %s --compose-hash %s` on the host of the webhook does it", appID, hash, appID, hash))
		}
		return nil
	}
	change, what := kmsauth.Allow, "allows the coordinators compose hash"
	if only {
		change, what = kmsauth.AllowOnly, "allows the coordinators no other compose hash than"
	}
	changed, err := change(file, appID, hash)
	if changed {
		o.Say(fmt.Sprintf("%s %s %.12s; this has to be the file that the webhook of the key service reads", file, what, hash))
	}
	return err
}

// bootProblem is why a coordinator does not boot, with the way out where the key service refused it.
func bootProblem(name, text string) error {
	if _, refused := operation.KeysRefused(text); refused {
		return fmt.Errorf("%s does not boot: %s: its key service refused it: look at the log of `cadre kms-auth`, and correct its static file", name, text)
	}
	return fmt.Errorf("%s does not boot: %s", name, text)
}
