"""Autoscaled nodes in a simulation.

```
policy file ─▶ an autoscaler (Karpenter, cluster-autoscaler) ─▶ Fleet ─▶ nodes of the API server
                    │  asks forks of the cluster               │
                    └─ packing: exact or upstream              └─ the cloud: delays, failures, quotas, interruptions
```
"""
