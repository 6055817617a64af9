"""Commands that answer a question over all manifests, jobs and operators."""
