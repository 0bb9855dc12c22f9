"""Two members of one scope ask Consul what Patroni does in the life of a cluster, by
Patroni's own code: scope.py SCOPE NAME HOST:PORT TOKEN NAME HOST:PORT TOKEN"""
import json
import logging
import sys
import threading
import time

from patroni.dcs import get_dcs

logging.basicConfig(level=logging.WARNING)
scope, members = sys.argv[1], [sys.argv[i:i + 3] for i in (2, 5)]


def connect(name, address, token):
    dcs = get_dcs({'scope': scope, 'name': name, 'namespace': '/service/', 'loop_wait': 10, 'ttl': 30,
                   'retry_timeout': 10, 'consul': {'host': address, 'token': token, 'register_service': False}})
    # Consul's least TTL is half of Patroni's.
    assert dcs.ttl == 30, dcs.ttl
    return dcs


a, b = (connect(*m) for m in members)


def check(what, got, want=True):
    if got != want:
        sys.exit('%s: got %r, want %r' % (what, got, want))
    print(what)


def member(name):
    return {'conn_url': 'postgres://%s:5432/postgres' % name, 'api_url': 'http://%s:8008/patroni' % name,
            'state': 'running', 'role': 'replica', 'version': '4.1.5'}


check('a scope that is new', a.get_cluster().is_unlocked())
check('initialize', a.initialize(create_new=True, sysid='7'))
check('initialize once', b.initialize(create_new=True, sysid='8'), False)
check('dynamic configuration', a.set_config_value(json.dumps({'ttl': 30})))
for dcs, (name, _, _) in zip((a, b), members):
    check('member %s' % name, dcs.touch_member(member(name)))
check('take the lock', a.attempt_to_acquire_leader())
check('the lock is taken', b.attempt_to_acquire_leader(), False)

cluster = b.get_cluster()
check('the leader', cluster.leader.name, members[0][0])
check('the members', sorted(m.name for m in cluster.members), sorted(m[0] for m in members))
check('the configuration', cluster.config.data, {'ttl': 30})
check('the system', cluster.initialize, '7')

# Stale: the second write rests on a version that is no more.
version = cluster.config.version
check('configuration by version', b.set_config_value(json.dumps({'ttl': 20}), version))
check('configuration by an old version', b.set_config_value(json.dumps({'ttl': 10}), version), False)
check('keep the lock', a.update_leader(a.get_cluster(), 5, {'slot': 5}, {members[0][0]: 'x'}))
cluster = b.get_cluster()
check('status', (cluster.status.last_lsn, cluster.status.slots.get('slot')), (5, 5))
sync = a.write_sync_state(members[0][0], [members[1][0]], 0, version=None)
check('synchronous state', sync is not None and sync.leader, members[0][0])
check('synchronous state by version', a.write_sync_state(members[0][0], [], 0, version=sync.version) is not None)
check('synchronous state by an old version', a.write_sync_state(members[0][0], [], 0, version=sync.version), None)
check('history', a.set_history_value(json.dumps([[1, 5, 'none']])))
check('ask for a switchover', a.manual_failover(members[0][0], members[1][0]))
check('a switchover is asked for', b.get_cluster().failover.candidate, members[1][0])
check('withdraw it', a.manual_failover(None, None))

# One waits for the leader key, as Patroni does in each loop, while the other lets go.
cluster = b.get_cluster()
started, woke = threading.Event(), []


def wait():
    started.set()
    at = time.time()
    woke.append((b.watch(cluster.leader.version, 20), time.time() - at))


waiting = threading.Thread(target=wait)
waiting.start()
started.wait()
check('let go', a.delete_leader(a.get_cluster().leader, 6))
waiting.join()
if not woke[0][0] or woke[0][1] >= 20:
    sys.exit('the watch of the leader key does not see that it is let go: %r' % woke)
check('take over', b.attempt_to_acquire_leader())
check('the new leader', a.get_cluster().leader.name, members[1][0])
check('delete the scope', a.delete_cluster())
check('it is gone', b.get_cluster().is_unlocked())
print('done')
