package nats

import (
	"fmt"
	"time"
)

// The parts of nats-server's answers that the adapter reads.

// varz is the answer of /varz.
type varz struct {
	ID      string `json:"server_id"`
	Name    string `json:"server_name"`
	Version string `json:"version"`
}

// healthz is the answer of /healthz; empty fields where all is well.
type healthz struct {
	Status string `json:"status"`
	Error  string `json:"error"`
}

// raftz is the answer of /raftz, by account and group.
type raftz map[string]map[string]struct {
	ID   string `json:"id"`
	Term uint64 `json:"term"`
}

// jsz is the answer of /jsz, and of a request to the system account.
type jsz struct {
	Disabled bool      `json:"disabled"`
	Meta     *meta     `json:"meta_cluster"`
	Accounts []account `json:"account_details"`
	// Total is the number of accounts with JetStream. Accounts has the first 1,024 of them.
	Total int `json:"total"`
}

// whole fails if the answer of server leaves accounts out.
func (j jsz) whole(server string) error {
	if j.Total > len(j.Accounts) {
		return fmt.Errorf("server %s has %d accounts, and its answer describes %d: streams of the others are not known", server, j.Total, len(j.Accounts))
	}
	return nil
}

// meta is the meta group as one server sees it. Replicas leave this server out while there is a leader.
type meta struct {
	Leader   string `json:"leader"`
	Replicas []peer `json:"replicas"`
	Size     int    `json:"cluster_size"`
}

type account struct {
	Name    string   `json:"name"`
	Streams []stream `json:"stream_detail"`
}

type stream struct {
	Name    string `json:"name"`
	Cluster *raft  `json:"cluster"`
	Config  *struct {
		Replicas int `json:"num_replicas"`
	} `json:"config"`
	Consumers []struct {
		Name    string `json:"name"`
		Cluster *raft  `json:"cluster"`
	} `json:"consumer_detail"`
}

// raft is the group of a stream or of a consumer as one server sees it. Replicas leave this server
// out where the group has a leader.
type raft struct {
	Leader   string `json:"leader"`
	Replicas []peer `json:"replicas"`
}

// peer is another server of a group.
type peer struct {
	Name string `json:"name"`
	ID   string `json:"peer"`
	// Current of a dead peer stays true for ten seconds.
	Current bool `json:"current"`
	// Offline: the server said good-bye, or was silent for long.
	Offline bool `json:"offline"`
	// Active is the time since the peer answered last; 0: it did not answer yet.
	Active  time.Duration `json:"active"`
	Lag     uint64        `json:"lag"`
	Pending bool          `json:"pending"`
}

// answer is a server's answer to a request of the system account.
type answer struct {
	Server struct {
		Name string `json:"name"`
	} `json:"server"`
	Data  *jsz      `json:"data"`
	Error *apiError `json:"error"`
}

// done is the answer of a call that changes something.
type done struct {
	Success bool      `json:"success"`
	Error   *apiError `json:"error"`
}

type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}
