class UsageContext:
    LLM_CLASS = "LLM_CLASS"
