# bash completion of threadbox; made by deploy/generate.py.
_threadbox() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W "serve stop doctor run bench secret config keeper version --help" -- "$current"))
    return
  fi
  previous="${COMP_WORDS[COMP_CWORD - 1]}"
  case "$previous" in
    --aggressive-cleanup) words="true false" ;;
    --allow-no-auth) words="0 1" ;;
    --debug) words="true false" ;;
    --default-policy) words="strict wide open" ;;
    --log-commands) words="true false" ;;
    --log-json) words="0 1" ;;
    --log-level) words="debug info warning error off" ;;
    --webhook-allow-private) words="true false" ;;
    --config|--docker|--*-file|--*-dir)
      COMPREPLY=($(compgen -f -- "$current"))
      return
      ;;
  esac
  [ -n "$words" ] || case "${COMP_WORDS[1]}" in
    serve) words="--config --host --port --allow-no-auth --state-dir --worker-id --environment --pool-size --min-pool-size --max-pool-size --pool-refill-delay-seconds --aggressive-cleanup --container-idle-timeout-minutes --cleanup-interval-seconds --memory-limit --cpu-quota --pids-limit --max-file-size-mb --max-total-files --max-workspace-size-mb --session-timeout-minutes --default-command-timeout --default-policy --allowed-policies --registry-dir --sandbox-provider --provider-aliases --cors-origins --output-inline-kb --output-limit-mb --keeper-grace --shutdown-grace-seconds --webhook-secret-file --webhook-allow-private --webhook-allow-networks --webhook-ca-file --webhook-dns-servers --webhook-retry-seconds --sandbox-user --workspace-dir --container-image --docker-network-mode --host-workspace-path --redis-host --redis-port --debug --log-level --log-json --log-commands --help" ;;
    stop) words="--config --host --port --allow-no-auth --state-dir --worker-id --environment --pool-size --min-pool-size --max-pool-size --pool-refill-delay-seconds --aggressive-cleanup --container-idle-timeout-minutes --cleanup-interval-seconds --memory-limit --cpu-quota --pids-limit --max-file-size-mb --max-total-files --max-workspace-size-mb --session-timeout-minutes --default-command-timeout --default-policy --allowed-policies --registry-dir --sandbox-provider --provider-aliases --cors-origins --output-inline-kb --output-limit-mb --keeper-grace --shutdown-grace-seconds --webhook-secret-file --webhook-allow-private --webhook-allow-networks --webhook-ca-file --webhook-dns-servers --webhook-retry-seconds --sandbox-user --workspace-dir --container-image --docker-network-mode --host-workspace-path --redis-host --redis-port --debug --log-level --log-json --log-commands --help" ;;
    doctor) words="--json --config --host --port --allow-no-auth --state-dir --worker-id --environment --pool-size --min-pool-size --max-pool-size --pool-refill-delay-seconds --aggressive-cleanup --container-idle-timeout-minutes --cleanup-interval-seconds --memory-limit --cpu-quota --pids-limit --max-file-size-mb --max-total-files --max-workspace-size-mb --session-timeout-minutes --default-command-timeout --default-policy --allowed-policies --registry-dir --sandbox-provider --provider-aliases --cors-origins --output-inline-kb --output-limit-mb --keeper-grace --shutdown-grace-seconds --webhook-secret-file --webhook-allow-private --webhook-allow-networks --webhook-ca-file --webhook-dns-servers --webhook-retry-seconds --sandbox-user --workspace-dir --container-image --docker-network-mode --host-workspace-path --redis-host --redis-port --debug --log-level --log-json --log-commands --help" ;;
    run) words="--timeout --config --host --port --allow-no-auth --state-dir --worker-id --environment --pool-size --min-pool-size --max-pool-size --pool-refill-delay-seconds --aggressive-cleanup --container-idle-timeout-minutes --cleanup-interval-seconds --memory-limit --cpu-quota --pids-limit --max-file-size-mb --max-total-files --max-workspace-size-mb --session-timeout-minutes --default-command-timeout --default-policy --allowed-policies --registry-dir --sandbox-provider --provider-aliases --cors-origins --output-inline-kb --output-limit-mb --keeper-grace --shutdown-grace-seconds --webhook-secret-file --webhook-allow-private --webhook-allow-networks --webhook-ca-file --webhook-dns-servers --webhook-retry-seconds --sandbox-user --workspace-dir --container-image --docker-network-mode --host-workspace-path --redis-host --redis-port --debug --log-level --log-json --log-commands --help" ;;
    bench) words="--json --rounds --sandboxes --only --docker --image --config --host --port --allow-no-auth --state-dir --worker-id --environment --pool-size --min-pool-size --max-pool-size --pool-refill-delay-seconds --aggressive-cleanup --container-idle-timeout-minutes --cleanup-interval-seconds --memory-limit --cpu-quota --pids-limit --max-file-size-mb --max-total-files --max-workspace-size-mb --session-timeout-minutes --default-command-timeout --default-policy --allowed-policies --registry-dir --sandbox-provider --provider-aliases --cors-origins --output-inline-kb --output-limit-mb --keeper-grace --shutdown-grace-seconds --webhook-secret-file --webhook-allow-private --webhook-allow-networks --webhook-ca-file --webhook-dns-servers --webhook-retry-seconds --sandbox-user --workspace-dir --container-image --docker-network-mode --host-workspace-path --redis-host --redis-port --debug --log-level --log-json --log-commands --help" ;;
    secret) words="--config --host --port --allow-no-auth --state-dir --worker-id --environment --pool-size --min-pool-size --max-pool-size --pool-refill-delay-seconds --aggressive-cleanup --container-idle-timeout-minutes --cleanup-interval-seconds --memory-limit --cpu-quota --pids-limit --max-file-size-mb --max-total-files --max-workspace-size-mb --session-timeout-minutes --default-command-timeout --default-policy --allowed-policies --registry-dir --sandbox-provider --provider-aliases --cors-origins --output-inline-kb --output-limit-mb --keeper-grace --shutdown-grace-seconds --webhook-secret-file --webhook-allow-private --webhook-allow-networks --webhook-ca-file --webhook-dns-servers --webhook-retry-seconds --sandbox-user --workspace-dir --container-image --docker-network-mode --host-workspace-path --redis-host --redis-port --debug --log-level --log-json --log-commands --help" ;;
    config) words="--json --config --host --port --allow-no-auth --state-dir --worker-id --environment --pool-size --min-pool-size --max-pool-size --pool-refill-delay-seconds --aggressive-cleanup --container-idle-timeout-minutes --cleanup-interval-seconds --memory-limit --cpu-quota --pids-limit --max-file-size-mb --max-total-files --max-workspace-size-mb --session-timeout-minutes --default-command-timeout --default-policy --allowed-policies --registry-dir --sandbox-provider --provider-aliases --cors-origins --output-inline-kb --output-limit-mb --keeper-grace --shutdown-grace-seconds --webhook-secret-file --webhook-allow-private --webhook-allow-networks --webhook-ca-file --webhook-dns-servers --webhook-retry-seconds --sandbox-user --workspace-dir --container-image --docker-network-mode --host-workspace-path --redis-host --redis-port --debug --log-level --log-json --log-commands --help" ;;
    keeper) words="--config --help" ;;
    version) words="--help" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _threadbox threadbox
