package envoy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Bounds on the resources of one Envoy.
const (
	// maxConns is how many connections it accepts at once; more wait in the backlog.
	maxConns = 4096
	// maxHeap is the heap size at which Envoy accepts no more (Envoy itself takes 11 MiB, and about
	// 58 MiB resident with its code).
	maxHeap = 256 << 20
	// pingEvery and pingWithin detect a hanging coordinator that the overlay does not detect: its
	// connection is up and its process does not answer. The overlay's own deadline is shorter, so
	// this one seldom counts, and a ping costs 17 bytes.
	pingEvery  = 5 * time.Second
	pingWithin = 2 * time.Second
	// connectWithin bounds the connection to the relay, which is in this machine.
	connectWithin = time.Second
	// againFirst and againMost bound the wait before a lost stream is opened again; Envoy
	// takes a random part of it.
	againFirst = 100 * time.Millisecond
	againMost  = 2 * time.Second
)

// kept are the figures that Envoy keeps at all: every other one would cost memory, for
// each cluster and listener.
const kept = `cluster\..+\.(membership_(healthy|total)|upstream_cx_(active|total|connect_fail|connect_timeout|none_healthy|overflow|[rt]x_bytes_total))` +
	`|listener\.[0-9._]+\.(downstream_cx_(active|total|overload_reject)|downstream_global_cx_overflow|ssl\.(connection_error|fail_verify_[a-z_]+))` +
	`|.*rbac\.(allowed|denied)` +
	`|server\.(live|state|uptime|memory_[a-z_]+|days_until_first_cert_expiring)` +
	`|control_plane\.connected_state` +
	`|(listener_manager\.lds|cluster_manager\.cds)\.update_(success|rejected)` +
	`|listener_manager\.(total_listeners_active|total_filter_chains_draining|listener_create_failure)` +
	`|overload\..*\.(active|pressure)`

// xds is the name of the only cluster that does not come from a coordinator.
const xds = "cadre-xds"

type object = map[string]any

// bootstrap is the configuration that p's Envoy starts with, always the same bytes for the
// same values. Nothing in it is secret.
func bootstrap(p Proxy, at netip.AddrPort, admin string) ([]byte, error) {
	ads := object{"ads": object{}, "resource_api_version": "V3",
		// Envoy is not live before it has its configuration, however long that takes.
		"initial_fetch_timeout": seconds(0)}
	out, err := json.MarshalIndent(object{
		"node": object{
			"id": p.ID, "cluster": p.Service,
			"metadata": object{"node_name": p.Node, "namespace": "default", "partition": "default"},
		},
		"admin": object{
			"address":                  object{"pipe": object{"path": admin, "mode": 0o600}},
			"ignore_global_conn_limit": true,
		},
		"dynamic_resources": object{
			"lds_config": ads, "cds_config": ads,
			"ads_config": object{
				"api_type": "DELTA_GRPC", "transport_api_version": "V3",
				"grpc_services": []any{object{"envoy_grpc": object{
					"cluster_name": xds,
					"retry_policy": object{"retry_back_off": object{"base_interval": seconds(againFirst), "max_interval": seconds(againMost)}},
				}}},
			},
		},
		"static_resources": object{"clusters": []any{object{
			"name": xds, "type": "STATIC", "connect_timeout": seconds(connectWithin),
			"load_assignment": object{"cluster_name": xds, "endpoints": []any{object{"lb_endpoints": []any{object{
				"endpoint": object{"address": object{"socket_address": object{"address": at.Addr().String(), "port_value": at.Port()}}},
			}}}}},
			"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
				"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": object{"http2_protocol_options": object{
					"connection_keepalive": object{"interval": seconds(pingEvery), "timeout": seconds(pingWithin)},
				}},
			}},
		}}},
		"stats_config": object{
			"use_all_default_tags": false,
			"stats_tags": []any{
				object{"tag_name": "cluster", "regex": `^cluster\.((.+)\.)[a-z_]+$`},
				object{"tag_name": "listener", "regex": `^listener\.(([0-9._]+)\.)(?:ssl\.)?[a-z_]+$`},
			},
			"stats_matcher": object{"inclusion_list": object{"patterns": []any{object{"safe_regex": object{"regex": kept}}}}},
		},
		// No timer: the statistics are updated on each request for them.
		"stats_flush_on_admin": true,
		"overload_manager": object{
			"refresh_interval": seconds(time.Second),
			"resource_monitors": []any{
				object{"name": heapMonitor, "typed_config": object{
					"@type":               "type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
					"max_heap_size_bytes": maxHeap,
				}},
				object{"name": "envoy.resource_monitors.global_downstream_max_connections", "typed_config": object{
					"@type":                             "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
					"max_active_downstream_connections": maxConns,
				}},
			},
			"actions": []any{
				above("envoy.overload_actions.shrink_heap", 0.9),
				above("envoy.overload_actions.stop_accepting_connections", 0.95),
			},
		},
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the bootstrap of %s: %w", p.ID, err)
	}
	return out, nil
}

const heapMonitor = "envoy.resource_monitors.fixed_heap"

// above is an action that is taken above a part of the heap.
func above(action string, part float64) object {
	return object{"name": action, "triggers": []any{object{"name": heapMonitor, "threshold": object{"value": part}}}}
}

// seconds is a duration as protobuf's JSON has it.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// arguments is the command line of an Envoy, without the program's name.
func arguments(config string, drain time.Duration) []string {
	return []string{
		"--config-path", config,
		"--concurrency", "1",
		"--disable-hot-restart",
		"--drain-time-s", strconv.Itoa(int(drain.Seconds())),
		"--log-level", "warning",
		"--log-format", lineFormat, "--log-format-escaped",
	}
}
