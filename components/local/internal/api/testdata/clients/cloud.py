# Calls the methods of PyPI phala-cloud, which validates each answer, at its own default API
# version. Each step is one line of JSON on standard output; TestOfficialClients reads them.
import json
import os
import time

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from phala_cloud import create_client

client = create_client(api_key=os.environ["CLOUD_KEY"], base_url=os.environ["CLOUD_URL"])


def step(name, call):
    try:
        result = call()
    except Exception as err:  # a step that fails is reported, and the next one runs
        print(json.dumps({"step": name, "ok": False, "error": " ".join(str(err).split())[:500]}), flush=True)
        return None
    print(json.dumps({"step": name, "ok": True}), flush=True)
    return result


def unserved(name, call):
    error = "was answered"
    try:
        call()
    except Exception as err:
        error = f"{getattr(err, 'status_code', None) or getattr(err, 'status', None)} {err}"
    print(json.dumps({"step": name, "unserved": True, "ok": "not found" in error.lower(), "error": error[:300]}), flush=True)


def still(ref):
    while True:
        try:
            now = client.get_cvm_info({"id": ref})
        except Exception:  # a new CVM is not found at once
            now = None
        if now and not now.in_progress and now.status in ("running", "stopped"):
            return now
        time.sleep(0.05)


def seal(public_key, values):
    ephemeral, nonce = X25519PrivateKey.generate(), os.urandom(12)
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public_key)))
    plain = json.dumps({"env": [{"key": k, "value": v} for k, v in values.items()]}).encode()
    return (ephemeral.public_key().public_bytes_raw() + nonce + AESGCM(shared).encrypt(nonce, plain, None)).hex()


def text(release):
    image = "x@sha256:" + "1" * 64
    return f'services: {{web: {{image: "{image}", environment: {{RELEASE: "{release}", SECRET: "${{SECRET}}"}}}}}}'


def same(got, want):
    if got != want:
        raise ValueError(f"got {got}, want {want}")


step("current user", client.get_current_user)
step("nodes", client.get_available_nodes)
step("instance type families", client.list_all_instance_type_families)
step("instance types of a family", lambda: client.list_family_instance_types({"family": "cpu"}))
step("workspaces", client.list_workspaces)
step("workspace", lambda: client.get_workspace("local"))
step("workspace nodes", lambda: client.get_workspace_nodes({"team_slug": "local"}))
step("workspace quotas", lambda: client.get_workspace_quotas({"team_slug": "local"}))
step("os images", lambda: client.get_os_images())
step("key service contracts", client.list_kms_contracts)
step("key service contract", lambda: client.get_kms_contract("phala"))
step("nodes of a contract", lambda: client.list_kms_contract_nodes("phala"))
step("key services", client.get_kms_list)
step("ssh keys", client.list_ssh_keys)
allotted = step("app ids", lambda: client.next_app_ids({"counts": 2}))

name = "client-py"
request = {
    "name": name, "instance_type": "tdx.small", "image": os.environ["IMAGE"], "disk_size": 20, "env_keys": ["SECRET"],
    "compose_file": {"name": name, "docker_compose_file": text(1), "allowed_envs": ["SECRET"]},
}
first = allotted.app_ids[0]
step("provision with an allotted app id", lambda: same(
    client.provision_cvm({**request, "app_id": first.app_id, "nonce": first.nonce}).app_id, first.app_id))
provisioned = step("provision", lambda: client.provision_cvm(request))
sealed = seal(provisioned.app_env_encrypt_pubkey, {"SECRET": "value"})
commit = {"app_id": provisioned.app_id, "compose_hash": provisioned.compose_hash, "encrypted_env": sealed, "env_keys": ["SECRET"]}
made = step("create", lambda: client.commit_cvm_provision(commit))
step("the same create again", lambda: same(client.commit_cvm_provision(commit).id, made.id))
running = still(name)
vm, app = {"uuid": running.vm_uuid}, {"app_id": provisioned.app_id}
step("list", lambda: client.get_cvm_list({"page": 1, "page_size": 10}))
step("cvm", lambda: client.get_cvm_info(vm))
step("state", lambda: client.get_cvm_state(vm))
step("states", lambda: client.get_cvm_status_batch({"vm_uuids": [running.vm_uuid]}))
step("compose file", lambda: client.get_cvm_compose_file(vm))
step("docker compose text", lambda: same(client.get_cvm_docker_compose(vm), text(1)))
script = step("pre-launch script", lambda: client.get_cvm_pre_launch_script(vm))
step("network", lambda: client.get_cvm_network(vm))
step("user config", lambda: client.get_cvm_user_config(vm))
step("images of a cvm", lambda: client.get_available_os_images(vm))
step("env key", lambda: client.get_app_env_encrypt_pub_key({"kms": "phala", "app_id": provisioned.app_id}))
step("apps", client.get_app_list)
step("app", lambda: client.get_app_info(app))
step("cvms of an app", lambda: client.get_app_cvms(app))
revisions = step("revisions", lambda: client.get_app_revisions(app))
step("revision", lambda: client.get_app_revision_detail({**app, "revision_id": revisions.revisions[0].revision_id}))
step("filters", client.get_app_filter_options)
step("devices of an app", lambda: client.get_app_device_allowlist(app))

document = client.get_cvm_compose_file(vm).model_dump()
update = step("provision an update", lambda: client.provision_cvm_compose_file_update(
    {**vm, "app_compose": {**document, "docker_compose_file": text(2)}}))
step("update", lambda: client.commit_cvm_compose_file_update({**vm, "compose_hash": update.compose_hash}))
still(name)
for what, call in {
    "env": lambda: client.update_cvm_envs({**vm, "encrypted_env": sealed, "env_keys": ["SECRET"]}),
    "docker compose text replaced": lambda: client.update_docker_compose({**vm, "docker_compose_file": text(3)}),
    "pre-launch script replaced": lambda: client.update_pre_launch_script({**vm, "pre_launch_script": script + "\n"}),
    "pre-launch script put back": lambda: client.update_pre_launch_script({**vm, "pre_launch_script": script}),
    "patch of a disk": lambda: client.patch_cvm({**vm, "disk_size": 30}),
    "patch of several things": lambda: client.patch_cvm({**vm, "vcpu": 2, "memory": 4096, "docker_compose_file": text(4)}),
    "instance type": lambda: client.update_cvm_resources({**vm, "instance_type": "tdx.large", "allow_restart": True}),
    "os image": lambda: client.update_os_image({**vm, "os_image_name": os.environ["OTHER_IMAGE"]}),
    "visibility": lambda: client.update_cvm_visibility({**vm, "public_sysinfo": False, "public_logs": False}),
    "instance id": lambda: client.refresh_cvm_instance_id(vm),
    "stop": lambda: client.stop_cvm(vm),
    "start": lambda: client.start_cvm(vm),
    "restart": lambda: client.restart_cvm(vm),
    "shutdown": lambda: client.shutdown_cvm(vm),
}.items():
    step(what, call)
    still(name)
step("an instance of an app", lambda: client.create_app_instance({**app, "name": name + "-2"}))
step("replica", lambda: client.replicate_cvm(vm))

unserved("stats", lambda: client.get_cvm_stats(vm))
unserved("containers", lambda: client.get_cvm_containers_stats(vm))
unserved("attestation of a cvm", lambda: client.get_cvm_attestation(vm))
unserved("attestation of an app", lambda: client.get_app_attestation(app))
unserved("key services on a chain", lambda: client.get_kms_on_chain_detail({"chain": "base"}))
unserved("resources for a create", client.get_cvm_create_resources)
step("delete", lambda: client.delete_cvm(vm))
