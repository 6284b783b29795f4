// Manifests to begin with.

export const TEMPLATES: Record<string, string> = {
  Pod: `apiVersion: v1
kind: Pod
metadata:
  name: web-1
  namespace: default
spec:
  containers:
  - name: main
    image: nginx
    resources:
      requests: {cpu: 500m, memory: 256Mi}
`,
  Deployment: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: default
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: main
        image: nginx
        resources:
          requests: {cpu: 500m, memory: 256Mi}
`,
  Node: `apiVersion: v1
kind: Node
metadata:
  name: node-new
  labels:
    kubernetes.io/hostname: node-new
    topology.kubernetes.io/zone: a
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
`,
};
